//! A plan to be read.

use super::Plan;
use crate::disk::Faults;

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        if let Some(one_in) = self.clock_leaps {
            write!(f, ", the clock leaps once in {one_in} waits")?;
        }
        if let Some(one_in) = self.resends {
            write!(f, ", one write in {one_in} is sent twice at once")?;
        }
        writeln!(f)?;
        for (n, life) in self.lives.iter().enumerate() {
            writeln!(
                f,
                "  life {n}: cut at request {} or {:?}, {:?}; latencies up to {:?}, flushes {:?}",
                life.cut_at, life.after, life.coin, life.slowest, life.flush_takes
            )?;
            for (name, faults) in [("log", &life.log), ("data", &life.data)] {
                let plain = Faults {
                    seed: faults.seed,
                    ..Faults::default()
                };
                if *faults != plain {
                    writeln!(f, "    {name}: {faults:?}")?;
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
