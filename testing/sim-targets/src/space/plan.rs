//! Scenarios of the log-structured volume: the faults, their probabilities and their combinations.

use std::time::Duration;

use forebay_rng::{Rng, mix};
use forebay_sim::disk::{BitRot, DiskFaults, DiskOutage, TimedFault};
use forebay_sim::plan::{CheckSchedule, DiskConditions, IncarnationEnd, coin, regions};
use forebay_sim::role::PerDisk;
use forebay_sim::workload::{ScriptBounds, WriterScript, journal, mix as mixes};

use super::numbers::SEGMENTS_AT;
use super::settings::{Placing, SpaceDisk, SpaceFaultKind, SpaceTarget};

/// A scenario of the log-structured volume.
pub(super) type SpacePlan = forebay_sim::plan::ScenarioPlan<SpaceTarget>;
/// An incarnation of a scenario.
type SpaceIncarnation = forebay_sim::plan::Incarnation<SpaceDisk>;

/// Ends of incarnations. More probable ends occur more often.
const AFTERS: [IncarnationEnd; 5] = [
    IncarnationEnd::Cut,
    IncarnationEnd::Cut,
    IncarnationEnd::Quiet,
    IncarnationEnd::Close,
    IncarnationEnd::Drain,
];

/// Returns the scenario of a seed.
pub(super) fn of_seed(seed: u64) -> SpacePlan {
    let rng = Rng::new(mix(seed, 0x05_bace));
    let kind = kind(&rng);
    let block = if rng.one_in(4) { 4096 } else { 512 };
    let flood = rng.one_in(3);
    let len = (64 << 10)
        << if flood {
            3
        } else {
            rng.pick(&[0, 0, 0, 1, 1, 2, 3])
        };
    let regions = regions(&rng, len, block.into());
    let mut plan = SpacePlan {
        seed,
        volume: SpaceTarget {
            kind,
            max_delay: Duration::from_micros(200 << rng.below(9)),
            map_bytes: rng.one_in(3).then(|| 8192 << rng.below(4)),
            recovery_entries: 8 << rng.below(12),
            huge_trim: rng.pick(&[8, 100, 1 << 17]),
            detached_max: rng.pick(&[1, 3, 1024]),
            home_bytes: rng.pick(&[4096, 16 << 10, 64 << 10, 8 << 20]),
            flood,
            discard: rng.one_in(3),
            levelled: rng.one_in(4),
            spare_part: rng.pick(&[16, 128, 1024]),
            placement: placing(&rng, kind),
            changes: None,
        },
        block,
        len,
        regions,
        clock_leaps: rng.one_in(12).then(|| 2 << rng.below(6)),
        resends: rng.one_in(4).then(|| 1 + rng.below(8)),
        incarnations: Vec::new(),
    };
    let incarnations = 1 + rng.below(1 + rng.below(5));
    for n in 0..incarnations {
        let incarnation = incarnation(&plan, &rng, mix(seed, n + 1), n == 0);
        plan.incarnations.push(incarnation);
    }
    let rng = Rng::new(mix(seed, 0xf1_0545));
    if rng.one_in(24) {
        flushes_fail_while_brought_home(&mut plan, &rng);
    }
    // These choices have their own random numbers, so all other choices remain unchanged.
    let rng = Rng::new(mix(seed, 0xc0_7a6a));
    match rng.below(24) {
        0 => durable_writes_fail(&mut plan, &rng),
        1 | 2 => recoveries_are_cut(&mut plan, &rng),
        _ => {}
    }
    let rng = Rng::new(mix(seed, 0x7e_3e11));
    plan.volume.changes = rng.one_in(8).then(|| rng.next());
    let rng = Rng::new(mix(seed, 0x1d_1e07));
    if plan.volume.kind == SpaceFaultKind::Calm && rng.one_in(16) {
        rots_behind_the_last_incarnation(&mut plan, &rng);
    }
    plan.add_freezes();
    plan
}

/// Changes durable data after the last incarnation, which ends with a flush and is then idle. Parts of data written in
/// place have no checksum, so such placements are excluded.
fn rots_behind_the_last_incarnation(plan: &mut SpacePlan, rng: &Rng) {
    if plan.volume.placement.in_place() {
        plan.volume.placement = rng.pick(&[Placing::Lfs, Placing::Wolf, Placing::SepBit]);
    }
    plan.volume.changes = None;
    // A clock that leaps may end the idle time before the volume has recorded anything.
    plan.clock_leaps = None;
    let last = plan.incarnations.last_mut().expect("an incarnation");
    (last.cut_at, last.killed, last.after) = (u64::MAX, false, IncarnationEnd::Idle);
}

/// Makes writes of superblocks, or other durable writes, fail occasionally. The disk then loses its cache and reports
/// the failure late.
fn durable_writes_fail(plan: &mut SpacePlan, rng: &Rng) {
    plan.volume.kind = SpaceFaultKind::Fails;
    plan.volume.recovery_entries = 8 << rng.below(5);
    if rng.coin() {
        plan.volume.placement = Placing::Overwrite;
        plan.volume.home_bytes = rng.pick(&[4096, 16 << 10]);
    }
    for (n, incarnation) in (0..).zip(&mut plan.incarnations) {
        let conditions = &mut incarnation.disks[SpaceDisk::Medium];
        conditions.flush_takes = Some(Duration::from_micros(1 + rng.below(2000)));
        conditions.faults = DiskFaults {
            seed: mix(plan.seed, 100 + n),
            forgetful: true,
            fua_reported_late: true,
            ..DiskFaults::default()
        };
        if rng.one_in(4) {
            conditions.faults.writes_fail = 4 + rng.below(20);
        } else {
            conditions.faults.troubles.push(TimedFault {
                from: Duration::ZERO,
                to: None,
                range: Some(0..SEGMENTS_AT),
                reads: false,
                changes: true,
                one_in: 2 + rng.below(3),
                takes: Duration::ZERO,
                fails: true,
            });
        }
    }
}

/// Kills the process or cuts the power, and also cuts the following recoveries.
fn recoveries_are_cut(plan: &mut SpacePlan, rng: &Rng) {
    let first = plan.incarnations[0].clone();
    let again = |n: u64| SpaceIncarnation {
        seed: mix(first.seed, 20 + n),
        ..first.clone()
    };
    plan.incarnations.truncate(1);
    plan.incarnations[0].killed = rng.coin();
    for n in 0..2 + rng.below(4) {
        let mut incarnation = again(n);
        incarnation.killed = rng.coin();
        incarnation.cut_at = rng.below(16);
        incarnation.coin = coin(rng, incarnation.seed);
        plan.incarnations.push(incarnation);
    }
    plan.incarnations.push(again(9));
}

/// Makes flushes fail occasionally while the volume continuously writes pages in place. The disk then loses the data of
/// the failed flush.
fn flushes_fail_while_brought_home(plan: &mut SpacePlan, rng: &Rng) {
    plan.volume.kind = SpaceFaultKind::Fails;
    plan.volume.placement = Placing::Overwrite;
    plan.volume.home_bytes = rng.pick(&[4096, 16 << 10]);
    for (n, incarnation) in (0..).zip(&mut plan.incarnations) {
        let conditions = &mut incarnation.disks[SpaceDisk::Medium];
        conditions.flush_takes = Some(Duration::from_micros(1 + rng.below(20_000)));
        conditions.faults = DiskFaults {
            seed: mix(plan.seed, 100 + n),
            flushes_fail: 4 + rng.below(20),
            forgetful: true,
            ..DiskFaults::default()
        };
    }
}

/// Chooses a placement. Parts of data written in place have no checksum, so a disk that damages data excludes such
/// placements.
fn placing(rng: &Rng, kind: SpaceFaultKind) -> Placing {
    let honest = !matches!(
        kind,
        SpaceFaultKind::Rot | SpaceFaultKind::Misdirect | SpaceFaultKind::Lies
    );
    let chosen = if rng.coin() {
        Placing::Lfs
    } else {
        rng.pick(&Placing::ALL)
    };
    if honest || !chosen.in_place() {
        chosen
    } else {
        Placing::SepBit
    }
}

fn kind(rng: &Rng) -> SpaceFaultKind {
    match rng.below(100) {
        0..=64 => SpaceFaultKind::Calm,
        65..=79 => SpaceFaultKind::Fails,
        80..=87 => SpaceFaultKind::ReadsFail,
        88..=91 => SpaceFaultKind::Rot,
        92..=95 => SpaceFaultKind::Misdirect,
        _ => SpaceFaultKind::Lies,
    }
}

fn incarnation(plan: &SpacePlan, rng: &Rng, seed: u64, first: bool) -> SpaceIncarnation {
    let len = 4 + rng.below(60) as usize;
    let scripts = scripts(plan, rng, len);
    let requests = 20 + 3 * scripts.len() as u64 * len as u64;
    let faults = faults(rng, plan.volume.kind, seed, requests);
    let fast = rng.one_in(3);
    let us = |most: u64| Duration::from_micros(rng.below(most) + 1);
    let conditions = DiskConditions {
        block: plan.block,
        slowest: us(if fast { 50 } else { 20_000 }),
        flush_takes: rng.one_in(3).then(|| us(40_000)),
        faults,
    };
    SpaceIncarnation {
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
        disks: PerDisk::of(|_| conditions.clone()),
    }
}

/// Returns the script of each writer.
fn scripts(plan: &SpacePlan, rng: &Rng, len: usize) -> Vec<WriterScript> {
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

fn faults(rng: &Rng, kind: SpaceFaultKind, seed: u64, requests: u64) -> DiskFaults {
    let mut faults = DiskFaults {
        seed: mix(seed, 1),
        ..DiskFaults::default()
    };
    let when = rng.below(requests);
    if rng.one_in(6) {
        let span = Duration::from_millis(1 + rng.below(3000));
        faults.slow = Some((4 + rng.below(40), span));
    }
    // These choices have their own random numbers, so all other choices remain unchanged.
    let reads = Rng::new(mix(seed, 2));
    if faults.slow.is_none() && reads.one_in(3) {
        let span = Duration::from_millis(1 + reads.below(2000));
        faults.slow_reads = Some((2 + reads.below(12), span));
    }
    match kind {
        SpaceFaultKind::Calm => {}
        SpaceFaultKind::Fails => refuse(rng, &mut faults, when),
        SpaceFaultKind::ReadsFail => faults.reads_fail = 2 + rng.below(30),
        SpaceFaultKind::Rot => {
            faults.rot = Some(BitRot {
                at: when,
                places: 1 + rng.below(4),
            });
        }
        SpaceFaultKind::Misdirect => faults.misdirect = Some(rng.below(requests / 4 + 1)),
        SpaceFaultKind::Lies => faults.lies = true,
    }
    faults
}

fn refuse(rng: &Rng, faults: &mut DiskFaults, when: u64) {
    faults.forgetful = rng.coin();
    let rate = 4 + rng.below(60);
    match rng.below(5) {
        0 => faults.writes_fail = rate,
        1 => faults.flushes_fail = rate,
        kind => {
            let requests = (kind < 4).then(|| 1 + rng.below(1 << rng.below(9)));
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
