//! Short incarnations: each writes little, and the power is cut before all its data is durable.
//!
//! Data that an incarnation wrote and lost stays in its segment. The next incarnation uses identical numbers again, in
//! this segment or the next. So recovery must distinguish old from new records that are close together. They lie in
//! rotational offsets, and behind the end in a summary until the summary rots.

use std::ops::Range;
use std::time::Duration;

use forebay_ring_log::{HEADER_BYTES, SEGMENT_BYTES_MIN, SEGMENTS_AT};
use forebay_rng::{Rng, mix};
use forebay_sim::disk::{DiskFaults, WriteFate};
use forebay_sim::history::{ScriptAction, extent};
use forebay_sim::plan::{CheckSchedule, IncarnationEnd, ScenarioSettings, regions};
use forebay_sim::workload::{ScriptBounds, WriterScript};

use super::{CacheIncarnation, CachePlan, disks};
use crate::cache::settings::{CacheFaultKind, CacheTarget};

/// Bytes of a volume in these scenarios. The volume is small, so that all its data can be checked often, and some
/// writes are larger than a segment.
const LEN: u64 = SEGMENT_BYTES_MIN;

/// Turns some scenarios into scenarios of short incarnations. The choice is independent, so the other scenarios stay
/// unchanged.
pub(super) fn add(plan: &mut CachePlan) {
    let rng = Rng::new(mix(plan.seed, 0x5407_117e));
    let honest = !plan.volume.is_dishonest() && plan.volume.kind != CacheFaultKind::LogLost;
    if !honest || !rng.one_in(12) {
        return;
    }
    plan.volume = CacheTarget {
        kind: rng.pick(&[CacheFaultKind::Calm, CacheFaultKind::Summaries]),
        bypass: None,
        map_memory: None,
        gaps: (!rng.one_in(8)).then(|| rng.below(1 << 32)),
        flood: false,
        ..plan.volume.clone()
    };
    plan.len = LEN;
    plan.regions = regions(&rng, plan.len, plan.block.into());
    let incarnations = 3 + rng.below(12);
    plan.incarnations = (0..incarnations)
        .map(|n| incarnation(&rng, plan, n))
        .collect();
}

/// Returns the `n`-th incarnation of such a scenario.
fn incarnation(rng: &Rng, plan: &CachePlan, n: u64) -> CacheIncarnation {
    let seed = mix(plan.seed, 0x117e + n);
    let sound = |of| DiskFaults {
        seed: mix(seed, of),
        ..DiskFaults::default()
    };
    let (mut log, data, fast) = (sound(1), sound(2), rng.coin());
    if plan.volume.kind == CacheFaultKind::Summaries {
        log.decayed = summaries(rng, n);
    }
    let delay = plan.volume.max_delay;
    let block = plan.block.into();
    let script = |region: &Range<u64>| {
        let bounds = ScriptBounds {
            region: region.clone(),
            volume: plan.len,
            block,
        };
        little(rng, &bounds, delay)
    };
    CacheIncarnation {
        seed,
        scripts: plan.regions.iter().map(script).collect(),
        cut_at: u64::MAX,
        stop_at: None,
        abandons_at: None,
        freeze: None,
        replaces_at: None,
        killed: false,
        after: IncarnationEnd::Cut,
        coin: match rng.below(8) {
            0 => WriteFate::Keep,
            1..=3 => WriteFate::Blocks(rng.next()),
            _ => WriteFate::Writes(rng.next()),
        },
        looks: CheckSchedule::OneIn(3 + rng.below(6)),
        disks: disks(rng, plan.block, fast, log, data),
    }
}

/// Returns some small writes with pauses, in which the log writes a record of the pending data, or does not reach this
/// point. A flush follows, or an unflushed write that spans segments.
fn little(rng: &Rng, bounds: &ScriptBounds, delay: Duration) -> WriterScript {
    let room = bounds.region.end - bounds.region.start;
    let small = (bounds.block * (1 + rng.below(8))).min(room);
    let idle = || {
        let most = 2 * delay + Duration::from_millis(4);
        ScriptAction::Pause(Duration::from_micros(rng.below(most.as_micros() as u64)))
    };
    let mut actions = Vec::new();
    for _ in 0..1 + rng.below(3) {
        let range = bounds.align(extent(rng, &bounds.region, small));
        let fua = rng.one_in(12);
        actions.extend([ScriptAction::Write { range, fua }, idle()]);
        if rng.one_in(4) {
            actions.push(ScriptAction::Flush);
        }
    }
    match rng.below(4) {
        0 | 1 => {
            let range = bounds.align(bounds.region.clone());
            actions.extend([ScriptAction::Write { range, fua: false }, idle()]);
        }
        2 => actions.push(ScriptAction::Flush),
        _ => {}
    }
    WriterScript {
        actions,
        ..WriterScript::default()
    }
}

/// Returns a byte in the last block of some of the segments that these incarnations began. The last block contains
/// only the segment's summary.
fn summaries(rng: &Rng, incarnations: u64) -> Vec<u64> {
    let end = |segment: u64| SEGMENTS_AT + (segment + 1) * SEGMENT_BYTES_MIN;
    let some = (0..2 * incarnations).filter(|_| rng.coin());
    some.map(|segment| end(segment) - 1 - rng.below(HEADER_BYTES as u64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::of_seed;
    use super::*;
    use crate::cache::settings::CacheDisk;

    #[test]
    fn short_incarnation_scenarios_occur_with_and_without_damaged_summaries() {
        let plans: Vec<CachePlan> = (1..600).map(of_seed).filter(is_short).collect();
        let rots = |plan: &CachePlan| {
            plan.incarnations
                .iter()
                .any(|incarnation| !rotten(incarnation).is_empty())
        };
        let gaps = |plan: &CachePlan| plan.volume.gaps.is_some();
        assert!(plans.iter().any(|plan| rots(plan) && gaps(plan)));
        assert!(plans.iter().any(|plan| !rots(plan) && gaps(plan)));
        assert!(!plans.iter().all(gaps));
    }

    fn is_short(plan: &CachePlan) -> bool {
        let uncut = |incarnation: &CacheIncarnation| {
            incarnation.after == IncarnationEnd::Cut && incarnation.cut_at == u64::MAX
        };
        plan.len == LEN && plan.incarnations.len() > 2 && plan.incarnations.iter().all(uncut)
    }

    fn rotten(incarnation: &CacheIncarnation) -> &[u64] {
        &incarnation.disks[CacheDisk::Log].faults.decayed
    }
}
