//! Readable form of a plan.

use std::fmt::{Display, Formatter};

use super::{Incarnation, PlannedFreeze, ScenarioPlan, ScenarioSettings};
use crate::disk::DiskFaults;
use crate::role::DiskRole;

impl<S: ScenarioSettings> ScenarioPlan<S> {
    /// Writes the volume and its clock.
    fn show_volume(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let (seed, kind) = (self.seed, self.volume.kind());
        let (block, len) = (self.block, self.len);
        write!(
            f,
            "scenario {seed}: {kind}, blocks of {block}, a volume of {len} bytes, "
        )?;
        self.volume.show(f)?;
        if let Some(one_in) = self.clock_leaps {
            write!(f, ", the clock leaps once in {one_in} waits")?;
        }
        if let Some(one_in) = self.resends {
            write!(f, ", one write in {one_in} is sent twice at once")?;
        }
        writeln!(f)
    }

    /// Writes the scripts of writers with actions in an incarnation.
    fn show_writers(
        &self,
        incarnation: &Incarnation<S::Role>,
        f: &mut Formatter<'_>,
    ) -> std::fmt::Result {
        let writers = incarnation.scripts.iter().enumerate();
        for (writer, script) in writers.filter(|(_, script)| !script.actions.is_empty()) {
            let (region, count) = (&self.regions[writer], script.actions.len());
            writeln!(f, "    writer {writer} on {region:?}: {count} actions")?;
            for action in &script.actions {
                writeln!(f, "      {action}")?;
            }
        }
        Ok(())
    }
}

impl<S: ScenarioSettings> Display for ScenarioPlan<S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.show_volume(f)?;
        for (n, incarnation) in self.incarnations.iter().enumerate() {
            let slowest = incarnation.disks.map(|_, disk| disk.slowest);
            let flush = incarnation
                .disks
                .iter()
                .find_map(|(_, disk)| disk.flush_takes);
            writeln!(
                f,
                "  incarnation {n}: cut at request {} or {:?}, {:?}; latencies up to {slowest:?}, flushes {flush:?}",
                incarnation.cut_at, incarnation.after, incarnation.coin
            )?;
            if incarnation.killed {
                writeln!(f, "    the process is killed, the disks go on")?;
            }
            if let Some(at) = incarnation.stop_at {
                writeln!(f, "    closed at {at:?}")?;
            }
            if let Some(at) = incarnation.abandons_at {
                writeln!(f, "    what cannot be read is abandoned from {at:?} on")?;
            }
            if let Some(at) = incarnation.replaces_at {
                writeln!(f, "    a device is replaced at {at:?}")?;
            }
            if let Some(freeze) = incarnation.freeze {
                let PlannedFreeze {
                    at,
                    limit,
                    copy_takes,
                } = freeze;
                writeln!(
                    f,
                    "    frozen at {at:?} for {limit:?} at most, copied in {copy_takes:?}"
                )?;
            }
            show_disks(incarnation, self.block, f)?;
            self.show_writers(incarnation, f)?;
        }
        Ok(())
    }
}

/// Writes the block sizes that differ from the volume's, and the faults of each disk.
fn show_disks<R: DiskRole>(
    incarnation: &Incarnation<R>,
    block: u32,
    f: &mut Formatter<'_>,
) -> std::fmt::Result {
    if incarnation
        .disks
        .iter()
        .any(|(_, disk)| disk.block != block)
    {
        for (n, (role, disk)) in incarnation.disks.iter().enumerate() {
            let start = ["    ", ", "][n.min(1)];
            let has = [" has blocks", ""][n.min(1)];
            write!(f, "{start}the {role} device{has} of {}", disk.block)?;
        }
        writeln!(f)?;
    }
    for (role, disk) in incarnation.disks.iter() {
        let wrong = wrong(&disk.faults);
        if !wrong.is_empty() {
            writeln!(f, "    {role}: {}", wrong.join(", "))?;
        }
    }
    Ok(())
}

/// Returns the faults of a disk, in a few words each.
fn wrong(faults: &DiskFaults) -> Vec<String> {
    let rates = [
        ("read", faults.reads_fail),
        ("write", faults.writes_fail),
        ("flush", faults.flushes_fail),
        ("discard", faults.discards_fail),
    ];
    let some = rates.iter().filter(|(_, rate)| *rate > 0);
    let mut all: Vec<String> = some
        .map(|(what, rate)| format!("one {what} in {rate} fails"))
        .collect();
    all.extend(faults.outage.map(|outage| format!("{outage:?}")));
    all.extend(
        faults
            .forgetful
            .then(|| "a failed flush loses what it was for".into()),
    );
    let late = faults.fua_reported_late;
    all.extend(late.then(|| "it reports failed writes with FUA late".into()));
    all.extend(faults.lies.then(|| "it lies about flushes".into()));
    all.extend(faults.rot.map(|rot| format!("{rot:?}")));
    let decayed = &faults.decayed;
    all.extend((!decayed.is_empty()).then(|| format!("the bytes at {decayed:?} have changed")));
    let stray = faults.misdirect;
    all.extend(stray.map(|n| format!("write {n} goes astray")));
    all.extend(faults.room.map(|pages| match faults.room_again {
        Some(again) => format!("room for {pages} pages until {again:?}"),
        None => format!("room for {pages} pages"),
    }));
    all.extend(faults.troubles.iter().map(|trouble| format!("{trouble:?}")));
    for (what, slow) in [("request", faults.slow), ("read", faults.slow_reads)] {
        all.extend(slow.map(|(one_in, span)| format!("one {what} in {one_in} takes {span:?}")));
    }
    all
}
