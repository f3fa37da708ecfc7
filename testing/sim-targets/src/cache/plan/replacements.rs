//! Another device becomes the log of the volume in use. These choices have their own random numbers, like those of
//! `troubles.rs`.

use std::time::Duration;

use forebay_rng::{Rng, mix};
use forebay_sim::plan::ScenarioSettings;

use super::spans::{span, trouble};
use super::{CacheIncarnation, CachePlan};
use crate::cache::settings::{CacheDisk, CacheFaultKind};

/// Adds a spare log to some scenarios, and replacements of the log to their incarnations.
pub(super) fn add(plan: &mut CachePlan) {
    let rng = Rng::new(mix(plan.seed, 0x5a_2e10));
    let volume = &plan.volume;
    // The place of a log's faults, and of a missing log, is the log device of the beginning.
    let other_log = volume.is_dishonest()
        || matches!(
            volume.kind,
            CacheFaultKind::LogLost | CacheFaultKind::Summaries
        );
    let killed = plan.incarnations.iter().any(|one| one.killed);
    if other_log || killed || !rng.one_in(4) {
        return;
    }
    plan.volume.spare_log = true;
    let may_fail = plan.volume.may_fail();
    for incarnation in &mut plan.incarnations {
        // A device keeps its block size, or has smaller blocks later.
        incarnation.disks[CacheDisk::Spare].block = incarnation.disks[CacheDisk::Log].block;
        if incarnation.freeze.is_none() && !rng.one_in(3) {
            replacement(&rng, incarnation, may_fail);
        }
    }
}

/// Replaces the log in an incarnation, sometimes by a log that fails.
fn replacement(rng: &Rng, incarnation: &mut CacheIncarnation, may_fail: bool) {
    // Most scripts end within a second, and some after hours.
    let at = match rng.below(4) {
        0 => span(rng, 14),
        _ => Duration::from_micros(rng.below(1 << (8 + rng.below(14)))),
    };
    incarnation.replaces_at = Some(at);
    // More requests come while the data device flushes what was written without a log.
    if rng.coin() {
        let flush = Duration::from_micros(1 + rng.below(100_000));
        incarnation.disks[CacheDisk::Data].flush_takes = Some(flush);
    }
    let spare = &mut incarnation.disks[CacheDisk::Spare];
    if rng.one_in(3) {
        spare.slowest = Duration::from_micros(1 + rng.below(20_000));
    }
    if !may_fail || !rng.one_in(3) {
        return;
    }
    let faults = &mut spare.faults;
    faults.forgetful = rng.coin();
    match rng.below(4) {
        0 => faults.writes_fail = 1 + rng.below(20),
        1 => faults.flushes_fail = 1 + rng.below(8),
        2 => faults.reads_fail = 1 + rng.below(12),
        _ => faults.troubles.push(trouble(rng)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::of_seed;
    use super::*;

    #[test]
    fn scenarios_replace_the_log_with_and_without_faults_and_never_in_a_freeze() {
        let plans: Vec<CachePlan> = (1..600).map(of_seed).collect();
        let replaced = |plan: &CachePlan| {
            let of = |one: &CacheIncarnation| one.replaces_at.is_some();
            plan.incarnations.iter().any(of)
        };
        let kinds = [
            CacheFaultKind::Calm,
            CacheFaultKind::LogFails,
            CacheFaultKind::DataFails,
        ];
        for kind in kinds {
            let is = |plan: &&CachePlan| plan.volume.kind == kind && plan.volume.spare_log;
            assert!(plans.iter().filter(is).any(replaced), "{kind:?}");
        }
        let all = || plans.iter().flat_map(|plan| &plan.incarnations);
        let both = |one: &CacheIncarnation| one.replaces_at.is_some() && one.freeze.is_some();
        assert!(!all().any(both));
        let spare = |one: &CacheIncarnation| !one.disks[CacheDisk::Spare].faults.refuse_nothing();
        assert!(all().any(spare), "the new log fails, too");
    }
}
