//! Events with a duration: faults by the clock, stops during requests, crowds of requests, changed block sizes. These
//! choices are independent, so the other choices of a seed do not depend on them.

use std::ops::Range;
use std::time::Duration;

use forebay_device::AckMode;
use forebay_ring_log::{SEGMENTS_AT, SUPERBLOCK_B_AT};
use forebay_rng::{Rng, mix};
use forebay_sim::disk::TimedFault;
use forebay_sim::history::{ScriptAction, extent};
use forebay_sim::plan::{IncarnationEnd, ScenarioSettings};
use forebay_sim::workload::{ScriptBounds, WriterScript};

use super::scenes::{
    flushes_of_others, full_meanwhile, hard_rescues, little_memory, lose_flushes, past_the_log,
    refused_in_part, stopped_in_a_queue,
};
use super::spans::{CROWD, span, trouble};
use super::{CacheIncarnation, CachePlan};
use crate::cache::settings::{CacheDisk, CacheFaultKind};
use crate::cache::volume::LOG_BYTES;

pub(super) fn add(plan: &mut CachePlan) {
    let rng = Rng::new(mix(plan.seed, 0x7_2011_b1e5));
    let honest = !plan.volume.is_dishonest() && plan.volume.kind != CacheFaultKind::LogLost;
    if honest && rng.one_in(5) {
        plan.volume.kind = rng.pick(&[
            CacheFaultKind::Away,
            CacheFaultKind::Away,
            CacheFaultKind::Away,
            CacheFaultKind::BadPlaces,
            CacheFaultKind::Superblocks,
            CacheFaultKind::Superblocks,
        ]);
    }
    by_the_clock(&rng, plan);
    if honest && rng.one_in(10) {
        past_the_log(&rng, plan);
        if rng.one_in(3) && !is_long(plan.volume.kind) {
            plan.volume.kind = rng.pick(&[
                CacheFaultKind::DataFails,
                CacheFaultKind::DataFails,
                plan.volume.kind,
            ]);
            lose_flushes(&rng, plan);
            flushes_of_others(&rng, plan);
        }
    }
    if plan.volume.kind == CacheFaultKind::LogFails && rng.one_in(3) {
        hard_rescues(&rng, plan);
    }
    if rng.one_in(8) {
        crowd(&rng, plan);
    }
    if rng.one_in(6) {
        for incarnation in &mut plan.incarnations {
            let upto = if is_long(plan.volume.kind) { 18 } else { 11 };
            incarnation.stop_at = rng.coin().then(|| span(&rng, upto));
            incarnation.cut_at = u64::MAX;
        }
    }
    // All data that clients have read is in the log or durable on the data device.
    let handed_over = plan.volume.acknowledge == AckMode::Device;
    let known = plan.volume.kind == CacheFaultKind::Calm
        || handed_over && is_about_failures(plan.volume.kind);
    if known && plan.volume.bypass.is_none() && (rng.one_in(5) || handed_over) {
        killed(&rng, plan);
    }
    if plan.block == 4096 && rng.one_in(3) {
        smaller_blocks(&rng, plan);
    }
    if plan.volume.kind == CacheFaultKind::Calm && rng.one_in(24) {
        stopped_in_a_queue(&rng, plan);
    }
    if plan.block == 512 && rng.one_in(24) {
        little_memory(&rng, plan);
    }
    abandoned(plan);
    one_disk(plan);
    report_late(plan);
}

/// Adds the lasting faults of the scenario's kind to each incarnation.
fn by_the_clock(rng: &Rng, plan: &mut CachePlan) {
    let (kind, data_len, block) = (plan.volume.kind, plan.len, plan.block.into());
    for incarnation in &mut plan.incarnations {
        match kind {
            CacheFaultKind::Away if rng.one_in(4) => {
                full_meanwhile(rng, incarnation, &plan.regions, block);
            }
            CacheFaultKind::Away => away(rng, incarnation),
            CacheFaultKind::BadPlaces if block == 512 && rng.one_in(4) => {
                refused_in_part(rng, incarnation, &plan.regions);
            }
            CacheFaultKind::BadPlaces => bad_places(rng, incarnation, data_len),
            CacheFaultKind::Superblocks if rng.coin() => superblocks(rng, incarnation),
            CacheFaultKind::Superblocks => second_copy(rng, incarnation, &plan.regions, block),
            CacheFaultKind::DataFull if rng.coin() => {
                incarnation.disks[CacheDisk::Data].faults.room_again = Some(span(rng, 24));
            }
            _ => {}
        }
        if incarnation.disks[CacheDisk::Data]
            .faults
            .room_again
            .is_some()
            || is_long(kind)
        {
            take_time(rng, incarnation);
        }
    }
}

/// Declares unreadable data lost, if reads of the log fail occasionally or for long, and adds time for the
/// consequences. The choice is independent, like all choices of this file.
fn abandoned(plan: &mut CachePlan) {
    let rng = Rng::new(mix(plan.seed, 0x0617_e00b));
    let kind = plan.volume.kind;
    let unread = match kind {
        CacheFaultKind::LogReadsFail => !rng.one_in(3),
        CacheFaultKind::Away | CacheFaultKind::BadPlaces => rng.coin(),
        _ => false,
    };
    if !unread {
        return;
    }
    for incarnation in &mut plan.incarnations {
        incarnation.abandons_at = (!rng.one_in(3)).then(|| span(&rng, 14));
        if incarnation.abandons_at.is_some() && kind == CacheFaultKind::LogReadsFail {
            take_time(&rng, incarnation);
        }
    }
}

/// Makes both devices parts of one disk, on which writes may also bypass the log. The choice is independent, like all
/// choices of this file.
fn one_disk(plan: &mut CachePlan) {
    let rng = Rng::new(mix(plan.seed, 0x0d15_c0e5));
    plan.volume.one_disk = is_about_failures(plan.volume.kind) && rng.one_in(3);
    let is_plain = plan.volume.bypass.is_none()
        && !plan
            .incarnations
            .iter()
            .any(|incarnation| incarnation.killed);
    if plan.volume.one_disk && is_plain && rng.coin() {
        past_the_log(&rng, plan);
    }
    if !plan.volume.one_disk || rng.coin() {
        return;
    }
    for incarnation in &mut plan.incarnations {
        let role = rng.pick(&[CacheDisk::Log, CacheDisk::Data, CacheDisk::Data]);
        let faults = &mut incarnation.disks[role].faults;
        (faults.flushes_fail, faults.forgetful) = (1 + rng.below(12), true);
    }
}

/// Makes forgetful disks report a failed FUA write late, in every other scenario. A forgetful disk loses its cache when
/// a durable write fails.
fn report_late(plan: &mut CachePlan) {
    if Rng::new(mix(plan.seed, 0x001a_7e00)).coin() {
        return;
    }
    for incarnation in &mut plan.incarnations {
        for role in [CacheDisk::Log, CacheDisk::Data] {
            let faults = &mut incarnation.disks[role].faults;
            faults.fua_reported_late = faults.forgetful;
        }
    }
}

fn is_about_failures(kind: CacheFaultKind) -> bool {
    use CacheFaultKind::{
        Away, BadPlaces, DataFails, DataFull, LogFails, LogReadsFail, Superblocks,
    };
    matches!(
        kind,
        DataFails | DataFull | LogFails | LogReadsFail | Away | BadPlaces | Superblocks
    )
}

fn is_long(kind: CacheFaultKind) -> bool {
    matches!(
        kind,
        CacheFaultKind::Away | CacheFaultKind::BadPlaces | CacheFaultKind::Superblocks
    )
}

/// Makes one or both devices fail. Both devices fail together if they are parts of one disk.
fn away(rng: &Rng, incarnation: &mut CacheIncarnation) {
    for _ in 0..1 + rng.below(3) {
        let trouble = TimedFault {
            changes: !rng.one_in(4),
            ..trouble(rng)
        };
        let trouble = TimedFault {
            reads: trouble.reads || !trouble.changes,
            ..trouble
        };
        let which = rng.below(4);
        if which != 0 {
            incarnation.disks[CacheDisk::Log]
                .faults
                .troubles
                .push(trouble.clone());
        }
        if which != 1 {
            incarnation.disks[CacheDisk::Data]
                .faults
                .troubles
                .push(trouble);
        }
    }
    let forgetful = rng.coin();
    (
        incarnation.disks[CacheDisk::Log].faults.forgetful,
        incarnation.disks[CacheDisk::Data].faults.forgetful,
    ) = (forgetful, forgetful);
}

fn bad_places(rng: &Rng, incarnation: &mut CacheIncarnation, data_len: u64) {
    let home = rng.below(3);
    for _ in 0..1 + rng.below(4) {
        let place = trouble(rng);
        if home > 0 {
            let len = rng.pick(&[512, 4096, 16 << 10]);
            let at = rng.below((data_len - len) / 512 + 1) * 512;
            incarnation.disks[CacheDisk::Data]
                .faults
                .troubles
                .push(TimedFault {
                    range: Some(at..at + len),
                    reads: false,
                    ..place.clone()
                });
        }
        if home < 2 {
            let len = rng.pick(&[512, 4096, 128 << 10]);
            // The cache uses the first segments most.
            let most = (LOG_BYTES - SEGMENTS_AT) >> rng.below(6);
            let at = SEGMENTS_AT + rng.below(most / 512) * 512;
            incarnation.disks[CacheDisk::Log]
                .faults
                .troubles
                .push(TimedFault {
                    range: Some(at..at + len),
                    reads: true,
                    changes: false,
                    ..place
                });
        }
    }
}

/// Makes the log fail for a moment or permanently. From then on and for longer, writes of its superblocks fail, or only
/// writes of one copy.
fn superblocks(rng: &Rng, incarnation: &mut CacheIncarnation) {
    let first = TimedFault {
        reads: rng.one_in(3),
        one_in: 1,
        ..trouble(rng)
    };
    let longer = TimedFault {
        to: (!rng.one_in(3)).then(|| first.to.unwrap_or_default() + first.from + span(rng, 18)),
        range: Some(rng.pick(&[0, 0, SUPERBLOCK_B_AT])..SEGMENTS_AT),
        reads: false,
        one_in: rng.pick(&[1, 2, 2, 3, 6]),
        ..first.clone()
    };
    incarnation.disks[CacheDisk::Log]
        .faults
        .troubles
        .extend([first, longer]);
    incarnation.disks[CacheDisk::Log].faults.forgetful = rng.coin();
    if rng.one_in(3) {
        incarnation.disks[CacheDisk::Data]
            .faults
            .troubles
            .push(trouble(rng));
    }
}

/// Makes writes of the superblock's second copy fail sooner or later, while the rest of the log works. The two copies
/// then differ, which matters when zeroes are destaged and data overwrites them.
fn second_copy(rng: &Rng, incarnation: &mut CacheIncarnation, regions: &[Range<u64>], block: u64) {
    incarnation.disks[CacheDisk::Log]
        .faults
        .troubles
        .push(TimedFault {
            from: Duration::ZERO,
            to: None,
            range: Some(SUPERBLOCK_B_AT..SEGMENTS_AT),
            one_in: 2 + rng.below(3),
            reads: false,
            changes: true,
            takes: Duration::ZERO,
            fails: true,
        });
    // Reads of the first copy, which may contain more than the second, fail at first.
    if rng.one_in(3) {
        incarnation.disks[CacheDisk::Log]
            .faults
            .troubles
            .push(TimedFault {
                from: Duration::ZERO,
                to: Some(span(rng, 4)),
                range: Some(0..SUPERBLOCK_B_AT),
                one_in: 1,
                reads: true,
                changes: false,
                takes: Duration::ZERO,
                fails: true,
            });
    }
    let alone = rng.coin();
    for (region, script) in regions.iter().zip(&mut incarnation.scripts) {
        if alone {
            *script = WriterScript::default();
        }
        if !script.rules.is_empty() {
            continue;
        }
        let bounds = ScriptBounds {
            region: region.clone(),
            volume: region.end,
            block,
        };
        for _ in 0..1 + rng.below(4) {
            let mut all = Vec::new();
            for _ in 0..1 + rng.below(3) {
                let most = (16 << 10).min(region.end - region.start);
                let range = bounds.align(extent(rng, region, most));
                let most = (8 << 10).min(range.end - range.start);
                let part = bounds.align(extent(rng, &range, most));
                let fua = rng.coin();
                all.extend([
                    ScriptAction::Zero(range),
                    ScriptAction::Write { range: part, fua },
                ]);
            }
            all.push(ScriptAction::Flush);
            let idle = Duration::from_millis(1000 + rng.below(600));
            all.push(ScriptAction::Pause(idle));
            let at = rng.below(script.actions.len() as u64 + 1) as usize;
            script.actions.splice(at..at, all);
        }
    }
    if rng.coin() {
        incarnation.cut_at = u64::MAX;
    }
}

/// Adds pauses between actions, so that actions occur before, during and after the lasting events. Also adds time to
/// observe the end of the events.
fn take_time(rng: &Rng, incarnation: &mut CacheIncarnation) {
    // The journal's rules count actions, so such scripts cannot contain additional pauses.
    for script in incarnation
        .scripts
        .iter_mut()
        .filter(|s| s.rules.is_empty())
    {
        for _ in 0..1 + rng.below(12) {
            let at = rng.below(script.actions.len() as u64 + 1) as usize;
            let upto = rng.pick(&[10, 14, 17, 22]);
            script
                .actions
                .insert(at, ScriptAction::Pause(span(rng, upto)));
        }
    }
    if !rng.one_in(3) {
        incarnation.cut_at = if rng.coin() {
            u64::MAX
        } else {
            incarnation.cut_at.saturating_mul(4)
        };
    }
    if rng.coin() {
        incarnation.after = IncarnationEnd::Drain;
    }
}

/// Makes some writers issue very many concurrent requests.
fn crowd(rng: &Rng, plan: &mut CachePlan) {
    let block = u64::from(plan.block);
    for incarnation in &mut plan.incarnations {
        let mut left = CROWD >> rng.below(7);
        for (region, script) in plan.regions.iter().zip(&mut incarnation.scripts) {
            for _ in 0..rng.below(3) {
                let most = left.min(1 << rng.below(13)).max(2);
                let bounds = ScriptBounds {
                    region: region.clone(),
                    volume: plan.len,
                    block,
                };
                let batch = ScriptAction::Batch(batch(rng, &bounds, most));
                left = left.saturating_sub(most);
                if script.rules.is_empty() && left > 0 {
                    let at = rng.below(script.actions.len() as u64 + 1) as usize;
                    script.actions.insert(at, batch);
                }
            }
        }
    }
}

/// Returns `count` writes, adjacent or at random places, where they may overlap.
fn batch(rng: &Rng, bounds: &ScriptBounds, count: u64) -> Vec<Range<u64>> {
    let len = bounds.block * (1 + rng.below(1 + rng.below(8)));
    let start = bounds.region.start.next_multiple_of(bounds.block);
    let places = (bounds.region.end - start) / bounds.block;
    let blocks = (len / bounds.block).min(places);
    let in_order = rng.coin();
    let place = |n: u64| {
        let n = if in_order { n * blocks } else { rng.next() };
        let at = start + n % (places - blocks + 1) * bounds.block;
        at..at + blocks * bounds.block
    };
    (0..count).map(place).collect()
}

/// Kills the process early, once or several times, while the disks' caches contain data. In a later incarnation, the
/// power is cut.
fn killed(rng: &Rng, plan: &mut CachePlan) {
    if plan.incarnations.len() == 1 {
        let again = plan.incarnations[0].clone();
        plan.incarnations.push(CacheIncarnation {
            seed: mix(again.seed, 8),
            ..again
        });
    }
    let last = plan.incarnations.len() - 1;
    for (n, incarnation) in plan.incarnations.iter_mut().enumerate() {
        incarnation.killed = n < last && (n == 0 || rng.coin());
        if incarnation.killed {
            incarnation.cut_at = 4 + rng.below(40);
        }
    }
}

/// Gives the log device, the data device or both smaller blocks than the volume was made for, from some incarnation on.
fn smaller_blocks(rng: &Rng, plan: &mut CachePlan) {
    let from = rng.below(plan.incarnations.len() as u64) as usize;
    let blocks = rng.pick(&[(512, 4096), (4096, 512), (512, 512)]);
    for incarnation in &mut plan.incarnations[from..] {
        incarnation.disks[CacheDisk::Log].block = blocks.0;
        incarnation.disks[CacheDisk::Data].block = blocks.1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::of_seed;
    use super::*;
    use forebay_sim::disk::DiskFaults;

    fn plans() -> impl Iterator<Item = CachePlan> {
        (1..3000).map(of_seed)
    }

    fn some(has: impl Fn(&CachePlan, &CacheIncarnation) -> bool) -> bool {
        plans().any(|plan| {
            plan.incarnations
                .iter()
                .any(|incarnation| has(&plan, incarnation))
        })
    }

    #[test]
    fn scenarios_cover_every_kind_of_lasting_fault() {
        let hour = Duration::from_secs(3600);
        let lasts = |faults: &DiskFaults, range: bool| {
            let is_long = |trouble: &TimedFault| {
                trouble.range.is_some() == range && trouble.to.is_none_or(|to| to > hour)
            };
            faults.troubles.iter().any(is_long)
        };
        assert!(some(|_, incarnation| lasts(
            &incarnation.disks[CacheDisk::Log].faults,
            false
        )));
        assert!(some(|_, incarnation| lasts(
            &incarnation.disks[CacheDisk::Data].faults,
            false
        )));
        assert!(some(|_, incarnation| lasts(
            &incarnation.disks[CacheDisk::Data].faults,
            true
        )));
        let shared = |incarnation: &CacheIncarnation| {
            !incarnation.disks[CacheDisk::Log].faults.troubles.is_empty()
                && incarnation.disks[CacheDisk::Log].faults.troubles
                    == incarnation.disks[CacheDisk::Data].faults.troubles
        };
        assert!(some(|plan, incarnation| plan.volume.kind
            == CacheFaultKind::Away
            && shared(incarnation)));
        assert!(some(|_, incarnation| incarnation.disks[CacheDisk::Data]
            .faults
            .room_again
            .is_some()));
        assert!(some(|plan, incarnation| plan.volume.kind
            == CacheFaultKind::Calm
            && incarnation.stop_at.is_some()));
        assert!(some(|plan, incarnation| incarnation.disks[CacheDisk::Log]
            .block
            != plan.block));
        assert!(some(|plan, incarnation| incarnation.disks[CacheDisk::Data]
            .block
            != plan.block));
        assert!(some(|plan, _| plan.volume.map_memory.is_some()));
        assert!(some(
            |plan, _| plan.volume.one_disk && plan.volume.bypass.is_some()
        ));
        assert!(some(|_, incarnation| incarnation.abandons_at.is_some()));
        assert!(some(|plan, incarnation| plan.volume.kind
            != CacheFaultKind::Calm
            && incarnation.well_again() > Some(hour)));
        let crowd =
            |action: &ScriptAction| matches!(action, ScriptAction::Batch(all) if all.len() > 1000);
        assert!(some(|_, incarnation| incarnation
            .scripts
            .iter()
            .any(|s| s.actions.iter().any(crowd))));
    }

    #[test]
    fn batches_stay_in_their_region_and_use_whole_blocks() {
        for plan in plans() {
            for incarnation in &plan.incarnations {
                for (region, script) in plan.regions.iter().zip(&incarnation.scripts) {
                    for action in &script.actions {
                        let ScriptAction::Batch(ranges) = action else {
                            continue;
                        };
                        for range in ranges {
                            assert!(range.start >= region.start && range.end <= region.end);
                            assert!(range.start < range.end);
                            assert_eq!((range.start | range.end) % u64::from(plan.block), 0);
                        }
                    }
                }
            }
        }
    }
}
