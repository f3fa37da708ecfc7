//! A smaller world in which the same thing goes wrong.

use std::time::{Duration, Instant};

use crate::disk::Faults;
use crate::plan::{Looks, Plan};
use crate::world;

/// Makes a plan smaller for as long as the same checker is violated, or the time is up. What comes
/// out depends on the time; the world it is made from does not.
pub fn shrink(plan: &Plan, time: Duration) -> Plan {
    let until = Instant::now() + time;
    let fails = |plan: &Plan| {
        world::run(plan, false)
            .violation
            .map(|violation| violation.checker)
    };
    let Some(checker) = fails(plan) else {
        return plan.clone();
    };
    let mut shrinking = Shrinking {
        best: plan.clone(),
        checker,
        until,
        fails: &fails,
    };
    // Which requests are looked at hangs on their numbers, which change; so look at all.
    shrinking.attempt(|plan| {
        for life in &mut plan.lives {
            life.looks = Looks::Each {
                combinations: 0,
                recoveries: 0,
            };
        }
    });
    loop {
        let before = shrinking.size();
        shrinking.lives();
        shrinking.lanes();
        shrinking.options();
        shrinking.actions();
        if shrinking.size() == before || shrinking.is_over() {
            return shrinking.best;
        }
    }
}

struct Shrinking<'a> {
    best: Plan,
    checker: &'static str,
    until: Instant,
    fails: &'a dyn Fn(&Plan) -> Option<&'static str>,
}

impl Shrinking<'_> {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    fn size(&self) -> usize {
        let lives = self.best.lives.iter();
        lives
            .flat_map(|life| &life.scripts)
            .map(|script| script.actions.len() + 1)
            .sum()
    }

    /// Keeps a change if the same checker still says no.
    fn attempt(&mut self, change: impl FnOnce(&mut Plan)) -> bool {
        let mut plan = self.best.clone();
        change(&mut plan);
        let same = !self.is_over() && (self.fails)(&plan) == Some(self.checker);
        if same {
            self.best = plan;
        }
        same
    }

    fn lives(&mut self) {
        while self.best.lives.len() > 1
            && self.attempt(|plan| plan.lives.truncate(plan.lives.len() - 1))
        {}
        let mut n = 0;
        while n + 1 < self.best.lives.len() {
            let gone = self.attempt(|plan| {
                plan.lives.remove(n);
            });
            n += usize::from(!gone);
        }
    }

    fn lanes(&mut self) {
        for life in 0..self.best.lives.len() {
            for lane in 0..self.best.lives[life].scripts.len() {
                self.attempt(|plan| plan.lives[life].scripts[lane] = Default::default());
            }
        }
    }

    fn options(&mut self) {
        self.attempt(|plan| plan.clock_leaps = None);
        self.attempt(|plan| plan.resends = None);
        self.attempt(|plan| plan.bypass = None);
        self.attempt(|plan| plan.durable_writes = false);
        for life in 0..self.best.lives.len() {
            self.attempt(|plan| plan.lives[life].log = Faults::default());
            self.attempt(|plan| plan.lives[life].data = Faults::default());
            self.attempt(|plan| plan.lives[life].log.slow = None);
            self.attempt(|plan| plan.lives[life].log.slow_reads = None);
            self.attempt(|plan| plan.lives[life].data.slow = None);
            self.attempt(|plan| plan.lives[life].flush_takes = None);
        }
    }

    /// Takes away runs of actions, halves first, then shorter ones.
    fn actions(&mut self) {
        for life in 0..self.best.lives.len() {
            for lane in 0..self.best.lives[life].scripts.len() {
                let structured = !self.best.lives[life].scripts[lane].rules.is_empty();
                if structured && self.checker == "journal" {
                    continue;
                }
                let mut run = self.best.lives[life].scripts[lane]
                    .actions
                    .len()
                    .div_ceil(2);
                while run > 0 {
                    let mut at = 0;
                    while at < self.best.lives[life].scripts[lane].actions.len() && !self.is_over()
                    {
                        let gone = self.attempt(|plan| {
                            let script = &mut plan.lives[life].scripts[lane];
                            let end = (at + run).min(script.actions.len());
                            script.actions.drain(at..end);
                            // They count actions.
                            script.rules.clear();
                        });
                        at += if gone { 0 } else { run };
                    }
                    run /= 2;
                }
            }
        }
    }
}

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
            for (lane, script) in life.scripts.iter().enumerate() {
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
