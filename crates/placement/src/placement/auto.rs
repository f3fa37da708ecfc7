//! Choice of the policy with the lowest expected cost on a device, with the reason.

use super::PlacementKind;
use crate::cost::{
    self, APPENDED, AccessDistribution, DiskParameters, best_hot_share_by, cleaning_cost,
    greedy_utilisation, separated_utilisation,
};

/// Fraction by which a policy must be cheaper than a simpler one.
const WORTH: f64 = 0.05;
/// Fraction of the gain of perfect separation that policies achieve, with victims chosen by cost and benefit. Policies
/// must learn the separation. The values are means over simulations of 80/20, 90/10 and Zipfian updates, at
/// utilisations of 0.8 and 0.9. They vary: up to 0.7 for one log, which separates by moving data, and 0.3 to 0.9 for
/// `sepbit`.
const LFS_GAINS: f64 = 0.35;
const WOLF_GAINS: f64 = 0.5;
const SEPBIT_GAINS: f64 = 0.6;
/// Positioning time in seconds above which several streams of client writes gain no more than one. Each stream has its
/// own records, and positioning to them costs as much as the separation gains (docs/measured/hylog).
const STREAMS_COST_FROM: f64 = 0.001;
/// Expected utilisation of a new volume.
const USUAL: f64 = 0.8;
/// Number of streams for perfect separation.
const STREAMS: usize = 6;
/// Maximum number of pages in the model of a segment. Larger segments are cleaned no differently.
const SEGMENT_PAGES_MAX: u64 = 1024;

/// Properties of a device that will be divided into segments.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceProperties {
    /// Positioning time and bandwidth, measured.
    pub disk: DiskParameters,
    /// True if data can be overwritten: not on flash or in objects of a store.
    pub in_place: bool,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
}

/// A choice and its reasons.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicyChoice {
    /// The policy.
    pub kind: PlacementKind,
    /// Expected costs of all policies that the device allows, simplest first, in segment I/Os per segment's worth of
    /// pages that clients write.
    pub costs: Vec<(PlacementKind, f64)>,
    /// The reason, as a sentence.
    pub why: String,
}

/// Properties of the clients' writes.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkloadProperties {
    /// Distribution of writes over pages.
    pub access: AccessDistribution,
    /// Utilisation of the device, from 0 to 1.
    pub utilisation: f64,
    /// Mean length of a write, in bytes.
    pub write_bytes: u64,
    /// Measured cost of cleaning a log of all writes, relative to the expected cost. 1 if it was not measured.
    pub log_ratio: f64,
}

impl WorkloadProperties {
    /// Returns the assumptions for a new volume with pages of `page_bytes`. The volume will hold up to `size` bytes on
    /// segments of `medium` bytes. A fifth of the pages receives 80 % of the writes. Segments will be 80 % full, or as
    /// full as possible if that is more. A volume larger than its device will not be full.
    pub fn assumed(page_bytes: u64, size: u64, medium: u64) -> WorkloadProperties {
        let most = size as f64 / medium.max(1) as f64;
        let utilisation = if most > 1.0 { USUAL } else { most.max(USUAL) };
        WorkloadProperties {
            access: AccessDistribution::skewed(0.8, 0.2),
            utilisation,
            write_bytes: page_bytes,
            log_ratio: 1.0,
        }
    }
}

/// Returns the policy with the lowest expected cost on `medium` for the known writes. Of policies with similar costs it
/// returns the simplest.
pub fn choose(medium: &DeviceProperties, known: &WorkloadProperties) -> PolicyChoice {
    let costs = expected(medium, known);
    let mut best = (PlacementKind::Lfs, f64::INFINITY);
    for &(kind, cost) in &costs {
        if cost < best.1 * (1.0 - WORTH) {
            best = (kind, cost);
        }
    }
    let (kind, cost) = best;
    let why = reason(medium, kind, cost, &costs, known);
    PolicyChoice { kind, costs, why }
}

/// Returns the choice for a device with several measurements, the most usual measurement first. If the measurements
/// lead to different policies, it returns the policy with the lowest cost in the worst case, as a multiple of the best
/// policy's cost there.
pub fn choose_by_all(
    measured: &[DeviceProperties],
    known: &WorkloadProperties,
) -> Option<PolicyChoice> {
    let all: Vec<PolicyChoice> = measured
        .iter()
        .map(|medium| choose(medium, known))
        .collect();
    let usual = all.first()?.clone();
    let mut kinds: Vec<PlacementKind> = all.iter().map(|chosen| chosen.kind).collect();
    kinds.sort_unstable_by_key(|kind| kind.code());
    kinds.dedup();
    if kinds.len() < 2 {
        return Some(usual);
    }
    let regret = |kind: PlacementKind| {
        let of = |chosen: &PolicyChoice| {
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
    Some(PolicyChoice {
        kind,
        why: format!(
            "{kind}, which costs at most {worst:.2} times as much as the best: the device was measured {} times, and \
             the measurements differ ({}). By the most frequent result: {}",
            all.len(),
            votes.join(", "),
            usual.why
        ),
        costs: usual.costs,
    })
}

/// Returns the cost of writes in place, including the log write before.
fn in_place_cost(medium: &DeviceProperties, known: &WorkloadProperties) -> f64 {
    let home = medium
        .disk
        .home_cost(known.write_bytes, medium.segment_bytes);
    home + APPENDED
}

/// Returns the expected costs, the simplest policy first.
fn expected(medium: &DeviceProperties, known: &WorkloadProperties) -> Vec<(PlacementKind, f64)> {
    let (d, access) = (known.utilisation, &known.access);
    let pages = medium.segment_bytes / medium.page_bytes.max(1);
    let pages = pages.clamp(1, SEGMENT_PAGES_MAX) as u32;
    let even = cleaning_cost(greedy_utilisation(d, pages));
    let perfect = cleaning_cost(separated_utilisation(access, d, STREAMS)).min(even);
    let streams_cost = medium.disk.positioning > STREAMS_COST_FROM;
    let log = |gains| {
        let gains = if streams_cost { LFS_GAINS } else { gains };
        if even.is_finite() {
            (even - gains * (even - perfect)) * known.log_ratio
        } else {
            even
        }
    };
    let in_place = in_place_cost(medium, known);
    let cleaned = |_, dense| greedy_utilisation(dense, pages);
    let hybrid = best_hot_share_by(access, d, in_place, cleaned).cost;
    let all = [
        (PlacementKind::Overwrite, in_place),
        (PlacementKind::Lfs, log(LFS_GAINS)),
        (PlacementKind::Wolf, log(WOLF_GAINS)),
        (PlacementKind::SepBit, log(SEPBIT_GAINS)),
        // Both policies log all writes if that is cheaper.
        (PlacementKind::HyLog, log(LFS_GAINS).min(hybrid)),
        (PlacementKind::HyLogSepBit, log(SEPBIT_GAINS).min(hybrid)),
    ];
    let possible = |(kind, _): &(PlacementKind, f64)| medium.in_place || !kind.in_place();
    all.into_iter().filter(possible).collect()
}

fn reason(
    medium: &DeviceProperties,
    kind: PlacementKind,
    cost: f64,
    costs: &[(PlacementKind, f64)],
    known: &WorkloadProperties,
) -> String {
    let others = costs.iter().filter(|(other, _)| *other != kind);
    let others: Vec<String> = others
        .map(|(kind, cost)| format!("{kind} {cost:.1}"))
        .collect();
    let efficiency = medium
        .disk
        .efficiency(known.write_bytes, medium.segment_bytes);
    let reasoned = if medium.in_place {
        format!(
            "a segment is written {efficiency:.1} times as fast as its pages one by one (so a log pays \
         where cleaned segments are less than {:.2} utilised)",
            cost::crossover(efficiency)
        )
    } else {
        "nothing can be overwritten in place".to_owned()
    };
    format!(
        "{kind}, since {reasoned}, and with {:.0} % of the device in use and {:.0} % of the writes to a fifth of the \
         pages it is expected to cost {cost:.1} segment writes for each one of data, against {}.",
        100.0 * known.utilisation,
        100.0 * known.access.received(0.2),
        others.join(", ")
    )
}

#[cfg(test)]
#[path = "auto_tests.rs"]
mod tests;
