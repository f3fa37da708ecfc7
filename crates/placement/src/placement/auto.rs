//! Which policy is expected to cost least on a device, and why.

use super::Kind;
use crate::cost::{
    self, Access, Disk, best_hot_share_by, cleaning_cost, greedy_utilisation, separated_utilisation,
};

/// A policy must be expected to cost by this share less than a simpler one.
const WORTH: f64 = 0.05;
/// What of the gain of perfect separation policies get that have to find out, with victims chosen by cost
/// and benefit: means over what was simulated for 80/20, 90/10 and Zipfian updates, at utilisations of 0.8
/// and 0.9. They vary: up to 0.7 for one log, which separates by what it moves, 0.3 to 0.9 for `sepbit`.
const LFS_GAINS: f64 = 0.35;
const WOLF_GAINS: f64 = 0.5;
const SEPBIT_GAINS: f64 = 0.6;
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

/// The policy that is expected to cost least on `medium`, utilised to `d`, for accesses distributed as
/// `access` says; of policies that cost about the same, the simplest.
pub fn choose(medium: &Medium, d: f64, access: &Access) -> Chosen {
    let e = medium
        .disk
        .efficiency(medium.page_bytes, medium.segment_bytes);
    let costs = expected(medium, d, access, e);
    let mut best = (Kind::Lfs, f64::INFINITY);
    for &(kind, cost) in &costs {
        if cost < best.1 * (1.0 - WORTH) {
            best = (kind, cost);
        }
    }
    let why = reason(medium, best, &costs, d, access, e);
    Chosen {
        kind: best.0,
        costs,
        why,
    }
}

/// Expected costs, the simplest policy first.
fn expected(medium: &Medium, d: f64, access: &Access, efficiency: f64) -> Vec<(Kind, f64)> {
    let pages = medium.segment_bytes / medium.page_bytes.max(1);
    let pages = pages.clamp(1, SEGMENT_PAGES_MAX) as u32;
    let even = cleaning_cost(greedy_utilisation(d, pages));
    let perfect = cleaning_cost(separated_utilisation(access, d, STREAMS)).min(even);
    let log = |gains| match even.is_finite() {
        true => even - gains * (even - perfect),
        false => even,
    };
    let cleaned = |_, dense| greedy_utilisation(dense, pages);
    let hybrid = best_hot_share_by(access, d, efficiency, cleaned).cost;
    let all = [
        (Kind::Overwrite, efficiency),
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
    d: f64,
    access: &Access,
    efficiency: f64,
) -> String {
    let others = costs.iter().filter(|(other, _)| *other != kind);
    let others: Vec<String> = others
        .map(|(kind, cost)| format!("{kind} {cost:.1}"))
        .collect();
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
        100.0 * d,
        100.0 * access.received(0.2),
        others.join(", ")
    )
}

#[cfg(test)]
#[path = "auto_tests.rs"]
mod tests;
