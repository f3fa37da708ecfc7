//! A plan to be read.

use std::fmt::{Display, Formatter};

use super::Plan;
use crate::disk::Faults;

impl Plan {
    /// The volume and its clock.
    fn show_volume(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Plan {
            seed,
            kind,
            block,
            data_len,
            max_delay,
            ..
        } = self;
        write!(
            f,
            "world {seed}: {kind:?}, blocks of {block}, a volume of {data_len} bytes, "
        )?;
        write!(f, "delay {max_delay:?}")?;
        if self.durable_writes {
            write!(f, ", durable writes")?;
        }
        if let Some(from) = self.bypass {
            write!(f, ", past the log from {from} bytes on")?;
        }
        if self.used_log {
            write!(f, ", a log device that was something else before")?;
        }
        if let Some(bytes) = self.map_memory {
            write!(f, ", {bytes} bytes of memory for the map")?;
        }
        if let Some(one_in) = self.clock_leaps {
            write!(f, ", the clock leaps once in {one_in} waits")?;
        }
        if let Some(one_in) = self.resends {
            write!(f, ", one write in {one_in} is sent twice at once")?;
        }
        writeln!(f)
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.show_volume(f)?;
        for (n, life) in self.lives.iter().enumerate() {
            writeln!(
                f,
                "  life {n}: cut at request {} or {:?}, {:?}; latencies up to {:?}, flushes {:?}",
                life.cut_at, life.after, life.coin, life.slowest, life.flush_takes
            )?;
            if life.killed {
                writeln!(f, "    the process is killed, the disks go on")?;
            }
            if let Some(at) = life.stop_at {
                writeln!(f, "    closed at {at:?}")?;
            }
            if life.blocks != (self.block, self.block) {
                let (log, data) = life.blocks;
                writeln!(
                    f,
                    "    the log device has blocks of {log}, the data device of {data}"
                )?;
            }
            for (name, faults) in [("log", &life.log), ("data", &life.data)] {
                let wrong = wrong(faults);
                if !wrong.is_empty() {
                    writeln!(f, "    {name}: {}", wrong.join(", "))?;
                }
            }
            let lanes = life.scripts.iter().enumerate();
            for (lane, script) in lanes.filter(|(_, script)| !script.actions.is_empty()) {
                let region = &self.regions[lane];
                writeln!(
                    f,
                    "    lane {lane} on {region:?}: {} actions",
                    script.actions.len()
                )?;
                for action in &script.actions {
                    writeln!(f, "      {action}")?;
                }
            }
        }
        Ok(())
    }
}

/// What is wrong with a disk, in a few words each.
fn wrong(faults: &Faults) -> Vec<String> {
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
    all.extend(faults.lies.then(|| "it lies about flushes".into()));
    all.extend(faults.rot.map(|rot| format!("{rot:?}")));
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
