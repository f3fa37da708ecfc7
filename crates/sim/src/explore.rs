//! Many worlds, one seed after the other, on some threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::plan::Plan;
use crate::world::{self, Outcome, Tally};

/// What makes a world of a seed.
pub type Planner<'a> = &'a (dyn Fn(u64) -> Plan + Sync);

/// What to explore.
#[derive(Clone)]
pub struct Exploration<'a> {
    /// Makes the worlds: [`Plan::of_seed`], as a rule.
    pub planner: Planner<'a>,
    /// The first seed; the others follow.
    pub seed: u64,
    /// For how long.
    pub time: Duration,
    /// At most so many worlds.
    pub worlds: Option<u64>,
    /// On so many threads.
    pub jobs: usize,
    /// After so many violations it ends.
    pub violations: usize,
}

/// What an exploration found.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// What was done.
    pub tally: Tally,
    /// The seeds in whose worlds something was that must not be, and what.
    pub violations: Vec<(u64, Outcome)>,
    /// Time the threads ran on a processor, together; zero if the system does not tell.
    pub cpu: Duration,
    /// Time from beginning to end.
    pub wall: Duration,
}

impl Explored {
    /// Recoveries looked at in a second of one processor.
    pub fn cycles_a_second(&self) -> f64 {
        let seconds = if self.cpu.is_zero() {
            self.wall
        } else {
            self.cpu
        }
        .as_secs_f64();
        self.tally.cycles as f64 / seconds.max(1e-9)
    }
}

/// How long this thread has run on a processor.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

/// Explores; `each` is told of every world, as it ends.
pub fn explore(what: &Exploration<'_>, each: &(dyn Fn(u64, &Outcome) + Sync)) -> Explored {
    let began = Instant::now();
    let (next, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    let found = Mutex::new(Explored::default());
    let work = || {
        let cpu = cpu_time();
        let mut tally = Tally::default();
        while began.elapsed() < what.time && !enough.load(Ordering::Relaxed) {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if what.worlds.is_some_and(|worlds| n >= worlds) {
                break;
            }
            let seed = what.seed.wrapping_add(n);
            let outcome = world::run(&(what.planner)(seed), false);
            tally.add(&outcome.tally);
            each(seed, &outcome);
            if outcome.violation.is_some() {
                let mut found = found.lock().expect("no panic holds it");
                found.violations.push((seed, outcome));
                let so_far = found.violations.len();
                enough.fetch_or(so_far >= what.violations, Ordering::Relaxed);
            }
        }
        let mut found = found.lock().expect("no panic holds it");
        found.tally.add(&tally);
        found.cpu += cpu_time() - cpu;
    };
    std::thread::scope(|threads| {
        for _ in 0..what.jobs {
            threads.spawn(work);
        }
    });
    let mut found = found.into_inner().expect("no panic holds it");
    found.wall = began.elapsed();
    found.violations.sort_by_key(|(seed, _)| *seed);
    found
}

impl std::fmt::Display for Explored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally {
            worlds,
            cycles,
            cuts_in_recovery,
            faults,
            requests,
            virtual_time,
        } = self.tally;
        write!(
            f,
            "worlds {worlds} crash_points {cycles} cuts_in_recovery {cuts_in_recovery} \
             faults_injected {faults} device_requests {requests} virtual_time_s {} violations {} \
             cycles_per_s_per_core {:.0} wall_s {:.1}",
            virtual_time.as_secs(),
            self.violations.len(),
            self.cycles_a_second(),
            self.wall.as_secs_f64()
        )
    }
}
