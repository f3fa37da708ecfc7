//! Scenes: combined actions of all writers and both disks that make rare situations frequent.

use std::ops::Range;
use std::time::Duration;

use forebay_device::DeviceOp;
use forebay_ring_log::SEGMENTS_AT;
use forebay_rng::Rng;
use forebay_sim::disk::{DiskOutage, TimedFault};
use forebay_sim::history::{ScriptAction, extent};
use forebay_sim::plan::{CheckSchedule, IncarnationEnd, ScenarioSettings};
use forebay_sim::workload::{ScriptBounds, WriterScript};

use super::spans::{CROWD, span, trouble};
use super::{CacheIncarnation, CachePlan};
use crate::cache::settings::CacheDisk;
use crate::cache::volume::LOG_BYTES;

/// Bytes at each end of a volume whose writes are recorded as fingerprints.
const FINGERPRINTED: u64 = 128 << 10;

/// Makes the data device unavailable for seconds while clients write more than the log can hold. The cache paces writes
/// before the log is full, so filling takes longer with smaller writes.
pub(super) fn full_meanwhile(
    rng: &Rng,
    incarnation: &mut CacheIncarnation,
    regions: &[Range<u64>],
    block: u64,
) {
    let from = span(rng, 8);
    let lasts = if rng.coin() {
        span(rng, 13)
    } else {
        Duration::from_secs(10 + rng.below(40))
    };
    incarnation.disks[CacheDisk::Data]
        .faults
        .troubles
        .push(TimedFault {
            from,
            to: Some(from + lasts),
            one_in: rng.pick(&[1, 1, 2]),
            ..trouble(rng)
        });
    incarnation.disks[CacheDisk::Data].faults.forgetful = rng.coin();
    fill_up(rng, incarnation, regions, block, rng.coin());
    incarnation.cut_at = incarnation.cut_at.saturating_mul(8);
}

/// Writes more than the log can hold, over a slow data device, and stops the volume meanwhile.
pub(super) fn stopped_in_a_queue(rng: &Rng, plan: &mut CachePlan) {
    for incarnation in &mut plan.incarnations {
        let slow = Duration::from_millis(200 << rng.below(4));
        incarnation.disks[CacheDisk::Data].faults.slow = Some((1 + rng.below(2), slow));
        fill_up(rng, incarnation, &plan.regions, plan.block.into(), false);
        incarnation.stop_at = Some(span(rng, 14));
        incarnation.cut_at = u64::MAX;
    }
}

/// Makes one sector fail writes for a long time. The script writes the sector and its neighbours in the block one by
/// one, with time for destaging between the writes. At the end, the volume is drained.
pub(super) fn refused_in_part(
    rng: &Rng,
    incarnation: &mut CacheIncarnation,
    regions: &[Range<u64>],
) {
    let writer = rng.below(regions.len() as u64) as usize;
    let (region, script) = (&regions[writer], &mut incarnation.scripts[writer]);
    let first = region.start.next_multiple_of(4096);
    let lines = (region.end.saturating_sub(first)) / 4096;
    if lines == 0 || !script.rules.is_empty() {
        return;
    }
    let line = first + rng.below(lines) * 4096;
    let sector = |n: u64| line + n * 512..line + (n + 1) * 512;
    incarnation.disks[CacheDisk::Data]
        .faults
        .troubles
        .push(TimedFault {
            from: Duration::ZERO,
            to: rng.coin().then(|| span(rng, 22)),
            range: Some(sector(rng.below(8))),
            one_in: 1,
            reads: false,
            changes: true,
            takes: Duration::ZERO,
            fails: true,
        });
    for _ in 0..2 + rng.below(10) {
        let range = sector(rng.below(8));
        script
            .actions
            .push(ScriptAction::Write { range, fua: false });
        if rng.coin() {
            let idle = Duration::from_millis(500 + rng.below(4000));
            script.actions.push(ScriptAction::Pause(idle));
        }
    }
    (incarnation.after, incarnation.cut_at) = (IncarnationEnd::Drain, u64::MAX);
}

/// Makes all writers together write more than the log can hold. The writes of a writer are concurrent, or durable and
/// sequential. After sequential durable writes, no unflushed data is left while writers wait for space.
fn fill_up(
    rng: &Rng,
    incarnation: &mut CacheIncarnation,
    regions: &[Range<u64>],
    block: u64,
    durably: bool,
) {
    for (region, script) in regions.iter().zip(&mut incarnation.scripts) {
        let start = region.start.next_multiple_of(block);
        let len = ((4 << 10) << rng.below(6)).min(region.end - start) / block * block;
        let places = (region.end - start - len) / block + 1;
        let any = |_| {
            let at = start + rng.below(places) * block;
            at..at + len
        };
        let count = 3 * LOG_BYTES / 2 / regions.len() as u64 / len;
        *script = WriterScript::default();
        if durably {
            let writes = (0..count).map(any);
            let writes = writes.map(|range| ScriptAction::Write { range, fua: true });
            script.actions.extend(writes);
            continue;
        }
        for _ in 0..4 {
            let batch = (0..count / 4).map(any).collect();
            script.actions.push(ScriptAction::Batch(batch));
        }
    }
    incarnation.looks = CheckSchedule::OneIn(8 + rng.below(24));
}

/// Makes large writes bypass the log over data that is being destaged. The log's reads and the moves of its tail take
/// long, and the script writes repeatedly to the same places.
pub(super) fn past_the_log(rng: &Rng, plan: &mut CachePlan) {
    let block = u64::from(plan.block);
    let from = 4096 << rng.below(2);
    plan.volume.bypass = Some(from);
    // Writes to the ends of a volume never bypass the log. The volume must be long enough to have a middle.
    plan.len = plan.len.max(512 << 10);
    let last = plan.regions.last_mut().expect("a region");
    last.end = plan.len;
    let between = FINGERPRINTED..plan.len - FINGERPRINTED;
    let alone = rng.coin();
    for incarnation in &mut plan.incarnations {
        let slow = Duration::from_millis(10 << rng.below(7));
        if rng.one_in(3) {
            incarnation.disks[CacheDisk::Data].faults.slow = Some((4 + rng.below(12), slow));
        } else if rng.coin() {
            incarnation.disks[CacheDisk::Log].faults.slow_reads = Some((1 + rng.below(3), slow));
        } else {
            incarnation.disks[CacheDisk::Log]
                .faults
                .troubles
                .push(TimedFault {
                    from: Duration::ZERO,
                    to: None,
                    range: Some(0..SEGMENTS_AT),
                    reads: false,
                    changes: true,
                    one_in: 1 + rng.below(2),
                    takes: slow,
                    fails: false,
                });
        }
        for (region, script) in plan.regions.iter().zip(&mut incarnation.scripts) {
            if alone {
                *script = WriterScript::default();
            }
            let start = region.start.max(between.start).next_multiple_of(block);
            let end = region.end.min(between.end) / block * block;
            let hot = start..end.min(start + (32 << 10));
            let fits = hot.end >= hot.start + from;
            if script.rules.is_empty() && fits {
                let at = rng.below(script.actions.len() as u64 + 1) as usize;
                let all = rewrites(rng, &hot, from, block, slow);
                script.actions.splice(at..at, all);
            }
        }
        if rng.coin() {
            incarnation.cut_at = u64::MAX;
        }
    }
}

/// Makes some flushes of the data device fail, and lose the flushed data, if the scenario permits failures.
pub(super) fn lose_flushes(rng: &Rng, plan: &mut CachePlan) {
    if plan.volume.may_fail() {
        for incarnation in &mut plan.incarnations {
            incarnation.disks[CacheDisk::Data].faults.flushes_fail = 1 + rng.below(5);
            incarnation.disks[CacheDisk::Data].faults.forgetful = true;
        }
    }
}

/// Flushes large writes that bypass the log, while earlier flushed small writes are being destaged to other places.
pub(super) fn flushes_of_others(rng: &Rng, plan: &mut CachePlan) {
    let (block, from) = (
        u64::from(plan.block),
        plan.volume.bypass.expect("set before"),
    );
    let between = FINGERPRINTED..plan.len - FINGERPRINTED;
    for incarnation in &mut plan.incarnations {
        if incarnation.disks[CacheDisk::Data].faults.slow.is_none() && rng.coin() {
            let slow = Duration::from_millis(5 << rng.below(6));
            incarnation.disks[CacheDisk::Data].faults.slow = Some((1 + rng.below(6), slow));
        }
        for (region, script) in plan.regions.iter().zip(&mut incarnation.scripts) {
            let start = region.start.max(between.start).next_multiple_of(block);
            let end = region.end.min(between.end) / block * block;
            if end < start + 4 * from {
                continue;
            }
            let middle = u64::midpoint(start, end) / block * block;
            let write = |within: Range<u64>, len: u64| {
                let at =
                    within.start + rng.below((within.end - within.start - len) / block + 1) * block;
                let range = at..at + len;
                ScriptAction::Write { range, fua: false }
            };
            let mut all = Vec::new();
            for _ in 0..1 + rng.below(4) {
                for _ in 0..1 + rng.below(8) {
                    all.push(write(start..middle, block));
                }
                all.push(ScriptAction::Flush);
                let idle = Duration::from_micros(760_000 + rng.below(120_000));
                all.push(ScriptAction::Pause(idle));
                for _ in 0..1 + rng.below(6) {
                    all.extend([write(middle..end, from), ScriptAction::Flush]);
                    all.push(ScriptAction::Pause(span(rng, 6)));
                }
                all.push(ScriptAction::Pause(span(rng, 12)));
            }
            *script = WriterScript {
                actions: all,
                ..WriterScript::default()
            };
        }
    }
}

/// Makes the log fail permanently, except for reads. Its data is destaged slowly and with failing flushes, while the
/// script repeatedly writes a few blocks.
pub(super) fn hard_rescues(rng: &Rng, plan: &mut CachePlan) {
    let block = u64::from(plan.block);
    if rng.coin() {
        lose_flushes(rng, plan);
    }
    for incarnation in &mut plan.incarnations {
        let at_first = rng.below(80);
        incarnation.disks[CacheDisk::Log].faults.outage = Some(DiskOutage {
            from: 20 + at_first,
            op: rng.pick(&[None, None, Some(DeviceOp::Flush)]),
            requests: None,
            reads: false,
        });
        let slow = Duration::from_millis(10 << rng.below(6));
        incarnation.disks[CacheDisk::Data].faults.slow = Some((1 + rng.below(4), slow));
        if rng.coin() {
            incarnation.disks[CacheDisk::Log].faults.slow_reads = Some((1 + rng.below(3), slow));
        }
        for (region, script) in plan.regions.iter().zip(&mut incarnation.scripts) {
            let hot = region.start..region.end.min(region.start + (16 << 10));
            let bounds = ScriptBounds {
                region: hot.clone(),
                volume: plan.len,
                block,
            };
            let mut all = Vec::new();
            for _ in 0..20 + rng.below(60) {
                let range = bounds.align(extent(rng, &hot, 8 << 10));
                all.push(ScriptAction::Write { range, fua: false });
                if rng.one_in(4) {
                    all.push(ScriptAction::Flush);
                }
                if rng.one_in(3) {
                    all.push(ScriptAction::Pause(span(rng, 7)));
                }
            }
            *script = WriterScript {
                actions: all,
                ..WriterScript::default()
            };
        }
        incarnation.cut_at = if rng.coin() {
            u64::MAX
        } else {
            60 + rng.below(300)
        };
    }
}

/// Returns small writes, a pause in which their destaging begins, and then large writes to the same places.
fn rewrites(
    rng: &Rng,
    hot: &Range<u64>,
    from: u64,
    block: u64,
    slow: Duration,
) -> Vec<ScriptAction> {
    let bounds = ScriptBounds {
        region: hot.clone(),
        volume: hot.end,
        block,
    };
    let mut all = Vec::new();
    let write = |len: u64| ScriptAction::Write {
        range: {
            let at = hot.start + rng.below((hot.end - hot.start - len) / block + 1) * block;
            at..at + len
        },
        fua: false,
    };
    for _ in 0..1 + rng.below(3) {
        for _ in 0..1 + rng.below(8) {
            all.push(write(block));
        }
        all.push(ScriptAction::Flush);
        // With an almost empty log, destaging begins after about this idle time.
        let more = rng.below(60_000 + 3 * slow.as_micros() as u64);
        all.push(ScriptAction::Pause(Duration::from_micros(760_000 + more)));
        for _ in 0..1 + rng.below(8) {
            let len = from * (1 + rng.below((hot.end - hot.start) / from));
            all.push(write(len));
            if rng.coin() {
                all.push(ScriptAction::Flush);
            }
            all.push(ScriptAction::Pause(span(rng, 5)));
            if rng.coin() {
                all.push(ScriptAction::Read(bounds.align(hot.clone())));
            }
        }
    }
    all
}

/// Limits the map's memory to less than the single sectors of most of the volume need, and writes such sectors.
pub(super) fn little_memory(rng: &Rng, plan: &mut CachePlan) {
    plan.volume.map_memory = Some(16 << 10 << rng.below(2));
    plan.len = plan.len.max(1 << 20);
    let last = plan.regions.last_mut().expect("a region");
    last.end = plan.len;
    let alone = rng.coin();
    for incarnation in &mut plan.incarnations {
        incarnation.looks = CheckSchedule::OneIn(8 + rng.below(24));
        let is_slow = incarnation.disks.iter().any(|(_, disk)| {
            let faults = &disk.faults;
            faults.slow.or(faults.slow_reads).is_some()
        });
        for (region, script) in plan.regions.iter().zip(&mut incarnation.scripts) {
            if alone {
                *script = WriterScript::default();
            }
            if !script.rules.is_empty() {
                continue;
            }
            let sectors = (region.end - region.start) / 512;
            let any = |_| {
                let at = region.start + rng.below(sectors) * 512;
                at..at + 512
            };
            // The cache destages the sectors one by one, and each batch must end within a minute.
            let most = if is_slow { 16 } else { CROWD / 4 };
            for _ in 0..1 + rng.below(4) {
                let count = (1 + rng.below(2 * sectors)).min(most);
                let at = rng.below(script.actions.len() as u64 + 1) as usize;
                let batch = ScriptAction::Batch((0..count).map(any).collect());
                script.actions.insert(at, batch);
            }
        }
        if rng.coin() {
            incarnation.cut_at = u64::MAX;
        }
    }
}
