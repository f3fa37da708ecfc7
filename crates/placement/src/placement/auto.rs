//! Which policy is expected to cost least on a device, and why.

use super::Kind;
use crate::cost::{
    self, APPENDED, Access, Disk, best_hot_share_by, cleaning_cost, greedy_utilisation,
    separated_utilisation,
};

/// A policy must be expected to cost by this share less than a simpler one.
const WORTH: f64 = 0.05;
/// What of the gain of perfect separation policies get that have to find out, with victims chosen by cost
/// and benefit: means over what was simulated for 80/20, 90/10 and Zipfian updates, at utilisations of 0.8
/// and 0.9. They vary: up to 0.7 for one log, which separates by what it moves, 0.3 to 0.9 for `sepbit`.
const LFS_GAINS: f64 = 0.35;
const WOLF_GAINS: f64 = 0.5;
const SEPBIT_GAINS: f64 = 0.6;
/// Where the medium takes longer than this to get to a place, in seconds, several streams of users' writes gain no more than
/// one: each has records of its own, and to get to them takes what separation gains (docs/measured/hylog).
const STREAMS_COST_FROM: f64 = 0.001;
/// How full a new volume is expected to become.
const USUAL: f64 = 0.8;
/// In how many streams.
const STREAMS: usize = 6;
/// Beyond, segments of more pages are cleaned no differently.
const SEGMENT_PAGES_MAX: u64 = 1024;

/// What is known of a medium when it is to be divided into segments.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Medium {
    /// Positioning and bandwidth, measured.
    pub disk: Disk,
    /// True if what is there can be overwritten: not on flash, nor in objects of a store.
    pub in_place: bool,
    /// Bytes of a page, and of a segment.
    pub page_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
}

/// A choice, and what it rests on.
#[derive(Clone, PartialEq, Debug)]
pub struct Chosen {
    /// The policy.
    pub kind: Kind,
    /// Expected costs of all that the medium allows, simplest first, in segment I/Os for each segment's
    /// worth of pages that users write.
    pub costs: Vec<(Kind, f64)>,
    /// The reason, as a sentence.
    pub why: String,
}

/// What is known of what users do.
#[derive(Clone, PartialEq, Debug)]
pub struct Known {
    /// Which share of the pages receives which share of the writes.
    pub access: Access,
    /// How full the medium is, from 0 to 1.
    pub utilisation: f64,
    /// The mean length of a write, in bytes.
    pub write_bytes: u64,
    /// What cleaning costs where all is logged, as measured, in terms of what is expected: 1 if it was not measured.
    pub log_ratio: f64,
}

impl Known {
    /// What is assumed of a new volume with pages of so many bytes, which is to hold up to `size` bytes on segments of
    /// `medium` bytes: that 80 % of the writes go to a fifth of the pages, and that segments will be 80 % full, or as full as
    /// they can get if that is more. A volume that is longer than its medium will not be full.
    pub fn assumed(page_bytes: u64, size: u64, medium: u64) -> Known {
        let most = size as f64 / medium.max(1) as f64;
        let utilisation = if most > 1.0 { USUAL } else { most.max(USUAL) };
        Known {
            access: Access::skewed(0.8, 0.2),
            utilisation,
            write_bytes: page_bytes,
            log_ratio: 1.0,
        }
    }
}

/// The policy that is expected to cost least on `medium` for what is known of its users; of policies that cost about the
/// same, the simplest.
pub fn choose(medium: &Medium, known: &Known) -> Chosen {
    let costs = expected(medium, known);
    let mut best = (Kind::Lfs, f64::INFINITY);
    for &(kind, cost) in &costs {
        if cost < best.1 * (1.0 - WORTH) {
            best = (kind, cost);
        }
    }
    let why = reason(medium, best, &costs, known);
    Chosen {
        kind: best.0,
        costs,
        why,
    }
}

/// The same of a medium that was measured several times, the most usual measurement first. If the measurements ask for different
/// policies, it is the one that costs least in the worst case, as a multiple of what the best would cost there.
pub fn choose_by_all(measured: &[Medium], known: &Known) -> Option<Chosen> {
    let all: Vec<Chosen> = measured
        .iter()
        .map(|medium| choose(medium, known))
        .collect();
    let usual = all.first()?.clone();
    let mut kinds: Vec<Kind> = all.iter().map(|chosen| chosen.kind).collect();
    kinds.sort_unstable_by_key(|kind| kind.code());
    kinds.dedup();
    if kinds.len() < 2 {
        return Some(usual);
    }
    let regret = |kind: Kind| {
        let of = |chosen: &Chosen| {
            let cost = |wanted| chosen.costs.iter().find(|(kind, _)| *kind == wanted);
            match (cost(kind), cost(chosen.kind)) {
                (Some((_, cost)), Some((_, best))) => cost / best,
                _ => f64::INFINITY,
            }
        };
        all.iter().map(of).fold(1.0, f64::max)
    };
    let least = kinds.iter().copied().map(|kind| (kind, regret(kind)));
    let (kind, worst) = least.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let votes: Vec<String> = (kinds.iter())
        .map(|kind| {
            let count = all.iter().filter(|chosen| chosen.kind == *kind).count();
            format!("{kind} in {count}")
        })
        .collect();
    Some(Chosen {
        kind,
        why: format!(
            "{kind}, which costs at most {worst:.2} times as much as the best: the device was measured {} times, and the \
             measurements differ ({}). By the most usual one: {}",
            all.len(),
            votes.join(", "),
            usual.why
        ),
        costs: usual.costs,
    })
}

/// What it costs to write in place, with the log before it.
fn in_place_cost(medium: &Medium, known: &Known) -> f64 {
    let home = medium
        .disk
        .home_cost(known.write_bytes, medium.segment_bytes);
    home + APPENDED
}

/// Expected costs, the simplest policy first.
fn expected(medium: &Medium, known: &Known) -> Vec<(Kind, f64)> {
    let (d, access) = (known.utilisation, &known.access);
    let pages = medium.segment_bytes / medium.page_bytes.max(1);
    let pages = pages.clamp(1, SEGMENT_PAGES_MAX) as u32;
    let even = cleaning_cost(greedy_utilisation(d, pages));
    let perfect = cleaning_cost(separated_utilisation(access, d, STREAMS)).min(even);
    let streams_cost = medium.disk.positioning > STREAMS_COST_FROM;
    let log = |gains| {
        let gains = if streams_cost { LFS_GAINS } else { gains };
        match even.is_finite() {
            true => (even - gains * (even - perfect)) * known.log_ratio,
            false => even,
        }
    };
    let in_place = in_place_cost(medium, known);
    let cleaned = |_, dense| greedy_utilisation(dense, pages);
    let hybrid = best_hot_share_by(access, d, in_place, cleaned).cost;
    let all = [
        (Kind::Overwrite, in_place),
        (Kind::Lfs, log(LFS_GAINS)),
        (Kind::Wolf, log(WOLF_GAINS)),
        (Kind::SepBit, log(SEPBIT_GAINS)),
        // They log everything where that is cheaper.
        (Kind::HyLog, log(LFS_GAINS).min(hybrid)),
        (Kind::HyLogSepBit, log(SEPBIT_GAINS).min(hybrid)),
    ];
    let possible = |(kind, _): &(Kind, f64)| medium.in_place || !kind.in_place();
    all.into_iter().filter(possible).collect()
}

fn reason(
    medium: &Medium,
    (kind, cost): (Kind, f64),
    costs: &[(Kind, f64)],
    known: &Known,
) -> String {
    let others = costs.iter().filter(|(other, _)| *other != kind);
    let others: Vec<String> = others
        .map(|(kind, cost)| format!("{kind} {cost:.1}"))
        .collect();
    let efficiency = medium
        .disk
        .efficiency(known.write_bytes, medium.segment_bytes);
    let reasoned = match medium.in_place {
        true => format!(
            "a segment is written {efficiency:.1} times as fast as its pages one by one (so a log pays \
             where cleaned segments are less than {:.2} utilised)",
            cost::crossover(efficiency)
        ),
        false => "nothing can be overwritten in place".to_owned(),
    };
    format!(
        "{kind}, since {reasoned}, and with {:.0} % of the medium in use and {:.0} % of the writes to a fifth \
         of the pages it is expected to cost {cost:.1} segment writes for each one of data, against {}.",
        100.0 * known.utilisation,
        100.0 * known.access.received(0.2),
        others.join(", ")
    )
}

#[cfg(test)]
#[path = "auto_tests.rs"]
mod tests;
