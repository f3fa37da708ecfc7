//! Scenarios of the cache: the faults, their probabilities and their combinations.

mod replacements;
mod scenes;
mod short_incarnations;
mod spans;
mod troubles;

use std::time::Duration;

use forebay_device::{AckMode, DeviceOp};
use forebay_rng::{Rng, mix};
use forebay_sim::disk::{BitRot, DiskFaults, DiskOutage};
use forebay_sim::plan::{CheckSchedule, DiskConditions, IncarnationEnd, coin, regions};
use forebay_sim::role::PerDisk;
use forebay_sim::workload::{ScriptBounds, WriterScript, journal, mix as mixes};

use super::settings::{CacheDisk, CacheFaultKind, CacheTarget};

/// A scenario of the cache.
pub type CachePlan = forebay_sim::plan::ScenarioPlan<CacheTarget>;
/// An incarnation of a scenario.
pub type CacheIncarnation = forebay_sim::plan::Incarnation<CacheDisk>;

/// Returns the scenario of a seed.
pub(super) fn of_seed(seed: u64) -> CachePlan {
    let rng = Rng::new(mix(seed, 0x0f0e_eba1));
    let kind = kind(&rng);
    let block = if rng.one_in(4) { 4096 } else { 512 };
    let flood = rng.one_in(8) | is_hard_on_the_log(kind, seed);
    let len = (64 << 10)
        << if flood {
            3
        } else {
            rng.pick(&[0, 0, 0, 1, 1, 2, 3])
        };
    let regions = regions(&rng, len, block.into());
    let incarnations = 1 + rng.below(1 + rng.below(5));
    let mut plan = CachePlan {
        seed,
        volume: cache(&rng, kind, seed, flood),
        block,
        len,
        regions,
        clock_leaps: rng.one_in(12).then(|| 2 << rng.below(6)),
        resends: resends(seed),
        incarnations: Vec::new(),
    };
    for n in 0..incarnations {
        let incarnation = incarnation(&plan, &rng, mix(seed, n + 1), n == 0);
        plan.incarnations.push(incarnation);
    }
    troubles::add(&mut plan);
    short_incarnations::add(&mut plan);
    plan.add_freezes();
    replacements::add(&mut plan);
    plan
}

/// Returns the settings of the cache.
fn cache(rng: &Rng, kind: CacheFaultKind, seed: u64, flood: bool) -> CacheTarget {
    CacheTarget {
        kind,
        used_log: Rng::new(mix(seed, 0x05ed)).one_in(3),
        // An independent choice, like `resends`.
        grown: Rng::new(mix(seed, 0x6a_0d)).one_in(6),
        acknowledge: if rng.one_in(8) {
            AckMode::Durable
        } else {
            handover(seed)
        },
        max_delay: Duration::from_micros(200 << rng.below(9)),
        bypass: rng.one_in(10).then(|| 4096 << rng.below(5)),
        map_memory: None,
        gaps: gaps(seed),
        flood,
        one_disk: false,
        spare_log: false,
    }
}

/// Chooses the seed of the rotational offsets, if any, independently of other choices, like [`resends`].
fn gaps(seed: u64) -> Option<u64> {
    let rng = Rng::new(mix(seed, 0x6a_95));
    rng.one_in(3).then(|| rng.below(1 << 32))
}

/// Chooses the acknowledgement of writes independently of other choices, like [`resends`].
fn handover(seed: u64) -> AckMode {
    if Rng::new(mix(seed, 0x4a_0d)).one_in(6) {
        AckMode::Device
    } else {
        AckMode::Memory
    }
}

/// Ends of incarnations. More probable ends occur more often.
const AFTERS: [IncarnationEnd; 5] = [
    IncarnationEnd::Cut,
    IncarnationEnd::Cut,
    IncarnationEnd::Quiet,
    IncarnationEnd::Close,
    IncarnationEnd::Drain,
];

fn incarnation(plan: &CachePlan, rng: &Rng, seed: u64, first: bool) -> CacheIncarnation {
    let len = 4 + rng.below(60) as usize;
    let scripts = scripts(plan, rng, len);
    let requests = 20 + 3 * scripts.len() as u64 * len as u64;
    let (mut log, data) = faults(rng, plan.volume.kind, seed, requests);
    if plan.volume.flood {
        log.slow_reads = slow_reads(seed);
    }
    let fast = rng.one_in(3);
    CacheIncarnation {
        seed,
        scripts,
        stop_at: None,
        abandons_at: None,
        freeze: None,
        replaces_at: None,
        killed: false,
        cut_at: if first || rng.coin() {
            rng.below(requests)
        } else {
            rng.below(40)
        },
        after: rng.pick(&AFTERS),
        coin: coin(rng, seed),
        looks: CheckSchedule::OneIn(if plan.volume.flood {
            6 + rng.below(8)
        } else {
            1 + rng.below(3)
        }),
        disks: disks(rng, plan.block, fast, log, data),
    }
}

/// Returns the two disks with their speeds and faults.
fn disks(
    rng: &Rng,
    block: u32,
    fast: bool,
    log: DiskFaults,
    data: DiskFaults,
) -> PerDisk<CacheDisk, DiskConditions> {
    let us = |most: u64| Duration::from_micros(rng.below(most) + 1);
    let slowest = if fast {
        [us(50), us(50)]
    } else {
        [us(4000), us(20_000)]
    };
    let flush_takes = rng.one_in(3).then(|| us(40_000));
    let sound = DiskFaults::default();
    PerDisk::of(|role| {
        let (slowest, flush_takes, faults) = match role {
            CacheDisk::Log => (slowest[0], flush_takes, &log),
            CacheDisk::Data => (slowest[1], None, &data),
            CacheDisk::Spare => (slowest[0], flush_takes, &sound),
        };
        DiskConditions {
            block,
            slowest,
            flush_takes,
            faults: faults.clone(),
        }
    })
}

/// Returns the script of each writer.
fn scripts(plan: &CachePlan, rng: &Rng, len: usize) -> Vec<WriterScript> {
    let scripts = plan.regions.iter().map(|region| {
        let bounds = ScriptBounds {
            region: region.clone(),
            volume: plan.len,
            block: plan.block.into(),
        };
        if plan.volume.flood {
            return mixes::flood(rng, &bounds, len);
        }
        let journal = rng
            .one_in(4)
            .then(|| journal::script(rng, &bounds, len))
            .flatten();
        journal.unwrap_or_else(|| mixes::script(rng, &bounds, len))
    });
    scripts.collect()
}

/// Returns true if the scenario fills the log, where its faults have more effect.
fn is_hard_on_the_log(kind: CacheFaultKind, seed: u64) -> bool {
    let rng = Rng::new(mix(seed, 0xf1_00d));
    matches!(
        kind,
        CacheFaultKind::LogFails | CacheFaultKind::LogReadsFail
    ) && rng.one_in(3)
}

/// Chooses whether clients repeat requests. The other choices of a seed do not depend on this choice.
fn resends(seed: u64) -> Option<u64> {
    let rng = Rng::new(mix(seed, 0x07_e5_e2));
    rng.one_in(4).then(|| 1 + rng.below(8))
}

fn kind(rng: &Rng) -> CacheFaultKind {
    match rng.below(100) {
        0..=47 => CacheFaultKind::Calm,
        48..=57 => CacheFaultKind::DataFails,
        58..=61 => CacheFaultKind::DataFull,
        62..=75 => CacheFaultKind::LogFails,
        76..=81 => CacheFaultKind::LogReadsFail,
        82..=87 => CacheFaultKind::Rot,
        88..=92 => CacheFaultKind::Misdirect,
        93..=96 => CacheFaultKind::Lies,
        _ => CacheFaultKind::LogLost,
    }
}

fn faults(rng: &Rng, kind: CacheFaultKind, seed: u64, requests: u64) -> (DiskFaults, DiskFaults) {
    let mut log = DiskFaults {
        seed: mix(seed, 1),
        ..DiskFaults::default()
    };
    let mut data = DiskFaults {
        seed: mix(seed, 2),
        ..DiskFaults::default()
    };
    let when = rng.below(requests);
    if rng.one_in(6) {
        let slow = (
            4 + rng.below(40),
            Duration::from_millis(1 + rng.below(3000)),
        );
        if rng.coin() {
            log.slow = Some(slow);
        } else {
            data.slow = Some(slow);
        }
    }
    match kind {
        CacheFaultKind::Calm
        | CacheFaultKind::Summaries
        | CacheFaultKind::LogLost
        | CacheFaultKind::Away
        | CacheFaultKind::BadPlaces
        | CacheFaultKind::Superblocks => {}
        CacheFaultKind::DataFails => refuse(rng, &mut data, when),
        CacheFaultKind::DataFull => data.room = Some(rng.below(24)),
        CacheFaultKind::LogFails => {
            // Reads usually continue to work, because unreadable data is lost.
            refuse(rng, &mut log, when);
            log.reads_fail = 0;
            slow_down(&mut data, seed);
            if rng.one_in(5) {
                refuse(rng, &mut data, when + rng.below(40));
                data.reads_fail = 0;
            }
        }
        CacheFaultKind::LogReadsFail => {
            log.reads_fail = 2 + rng.below(30);
            stop_reading(&mut log, seed);
        }
        CacheFaultKind::Rot => {
            log.rot = Some(BitRot {
                at: when,
                places: 1 + rng.below(4),
            });
        }
        CacheFaultKind::Misdirect => log.misdirect = Some(rng.below(requests / 4)),
        CacheFaultKind::Lies => {
            log.lies = true;
            data.lies = rng.coin();
        }
    }
    (log, data)
}

/// Returns reads so slow that the cache may rewrite the whole log during one read.
fn slow_reads(seed: u64) -> Option<(u64, Duration)> {
    let rng = Rng::new(mix(seed, 6));
    let span = Duration::from_millis(200 << rng.below(6));
    rng.coin().then(|| (8 + rng.below(60), span))
}

/// Makes all reads of the log fail for some time in every other incarnation of this kind, despite repetitions. Data
/// that only the log contains is then lost.
fn stop_reading(log: &mut DiskFaults, seed: u64) {
    let rng = Rng::new(mix(seed, 3));
    if rng.coin() {
        log.reads_fail = 0;
        log.outage = Some(DiskOutage {
            from: 34 + rng.below(120),
            op: Some(DeviceOp::Read),
            requests: rng.coin().then(|| 4 << rng.below(6)),
            reads: true,
        });
    }
}

/// Delays some requests to the data device in every other incarnation of this kind. Requests from before the failure of
/// the log are then still in flight during the rescue.
fn slow_down(data: &mut DiskFaults, seed: u64) {
    let rng = Rng::new(mix(seed, 4));
    if rng.coin() {
        let span = Duration::from_millis(20 + rng.below(400));
        data.slow = Some((1 + rng.below(8), span));
    }
}

fn refuse(rng: &Rng, faults: &mut DiskFaults, when: u64) {
    faults.forgetful = rng.coin();
    let rate = 4 + rng.below(60);
    match rng.below(6) {
        0 => faults.writes_fail = rate,
        1 => faults.flushes_fail = rate,
        2 => {
            faults.discards_fail = 1 + rng.below(4);
            faults.reads_fail = rate;
        }
        kind => {
            let requests = (kind < 5).then(|| 1 + rng.below(1 << rng.below(9)));
            let reads = rng.one_in(3);
            faults.outage = Some(DiskOutage {
                from: when,
                op: None,
                requests,
                reads,
            });
        }
    }
}
