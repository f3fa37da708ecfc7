//! Many scenarios, one seed after the other, on several threads.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::scenario::{self, ScenarioOutcome, ScenarioTally};
use crate::system::TestedSystem;
use crate::violation::Violation;

/// Maximum number of seeds kept for violations of one shape.
const SEEDS_KEPT: usize = 24;

/// Function that runs the scenario of a seed.
pub type SeedRunner<'a> = &'a (dyn Fn(u64) -> ScenarioOutcome + Sync);

/// Runs the scenario that a system under test plans for a seed.
pub fn of_seed<S: TestedSystem>(seed: u64) -> ScenarioOutcome {
    scenario::run(&S::plan(seed), false)
}

/// Parameters of an exploration.
pub struct Exploration<'a> {
    /// Function that runs the scenarios, usually [`of_seed`].
    pub scenario: SeedRunner<'a>,
    /// First seed; the others follow.
    pub seed: u64,
    /// Duration of the exploration.
    pub time: Duration,
    /// Maximum number of scenarios.
    pub scenarios: Option<u64>,
    /// Number of crash points after which the exploration ends.
    pub points: Option<u64>,
    /// Number of threads.
    pub jobs: usize,
    /// Number of violations after which the exploration ends.
    pub violations: u64,
}

/// Violations of one shape: see [`Violation::shape`].
#[derive(Clone, Debug)]
pub struct FoundViolation {
    /// Violation in the scenario with the lowest seed kept.
    pub violation: Violation,
    /// Digest of that scenario.
    pub digest: u64,
    /// Number of scenarios with such a violation.
    pub count: u64,
    /// Some of their seeds, in order.
    pub seeds: Vec<u64>,
}

/// Result of an exploration.
#[derive(Clone, Debug, Default)]
pub struct ExplorationResult {
    /// Work done.
    pub tally: ScenarioTally,
    /// Violations by shape.
    pub found: BTreeMap<String, FoundViolation>,
    /// Processor time of all threads; zero if the system does not report it.
    pub cpu: Duration,
    /// Time from start to end.
    pub wall: Duration,
}

impl ExplorationResult {
    /// Returns the number of scenarios with a violation.
    pub fn violations(&self) -> u64 {
        self.found.values().map(|found| found.count).sum()
    }

    /// Returns the violation with the lowest seed.
    pub fn first(&self) -> Option<&FoundViolation> {
        self.found.values().min_by_key(|found| found.seeds[0])
    }

    fn note(&mut self, seed: u64, violation: &Violation, digest: u64) {
        let found = self
            .found
            .entry(violation.shape())
            .or_insert_with(|| FoundViolation {
                violation: violation.clone(),
                digest,
                count: 0,
                seeds: Vec::new(),
            });
        found.count += 1;
        // On several threads scenarios do not end in the order of their seeds.
        if found.seeds.first().is_some_and(|first| seed < *first) {
            (found.violation, found.digest) = (violation.clone(), digest);
        }
        let at = found.seeds.partition_point(|known| *known < seed);
        found.seeds.insert(at, seed);
        found.seeds.truncate(SEEDS_KEPT);
    }

    /// Returns the checked recoveries per second of processor time.
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

/// Returns the processor time of this thread.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

/// Explores; calls `each` for every scenario when it ends.
pub fn explore(
    what: &Exploration<'_>,
    each: &(dyn Fn(u64, &ScenarioOutcome) + Sync),
) -> ExplorationResult {
    let began = Instant::now();
    let (next, points) = (AtomicU64::new(0), AtomicU64::new(0));
    let enough = AtomicBool::new(false);
    let found = Mutex::new(ExplorationResult::default());
    let work = || {
        let cpu = cpu_time();
        let mut tally = ScenarioTally::default();
        while began.elapsed() < what.time && !enough.load(Ordering::Relaxed) {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if what.scenarios.is_some_and(|scenarios| n >= scenarios) {
                break;
            }
            let seed = what.seed.wrapping_add(n);
            let outcome = (what.scenario)(seed);
            tally.add(&outcome.tally);
            each(seed, &outcome);
            let before = points.fetch_add(outcome.tally.cycles, Ordering::Relaxed);
            let points = before + outcome.tally.cycles;
            if what.points.is_some_and(|most| points >= most) {
                enough.store(true, Ordering::Relaxed);
            }
            if let Some(violation) = &outcome.violation {
                let mut found = found.lock().expect("no panic holds it");
                found.note(seed, violation, outcome.digest);
                if found.violations() >= what.violations {
                    enough.store(true, Ordering::Relaxed);
                }
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
    found
}

impl std::fmt::Display for ExplorationResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ScenarioTally {
            scenarios,
            cycles,
            cuts_in_recovery,
            freezes,
            replacements,
            faults,
            requests,
            virtual_time,
        } = self.tally;
        write!(
            f,
            "scenarios {scenarios} crash_points {cycles} cuts_in_recovery {cuts_in_recovery} freezes {freezes} \
             replacements {replacements} faults_injected {faults} device_requests {requests} virtual_time_s {} violations {} \
             cycles_per_s_per_core {:.0} wall_s {:.1}",
            virtual_time.as_secs(),
            self.violations(),
            self.cycles_a_second(),
            self.wall.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_of_one_shape_are_counted_together_with_their_lowest_seeds() {
        let mut explored = ExplorationResult::default();
        for seed in (0..20).rev() {
            let text = format!("sector {seed} holds [{seed}, {}]", seed * 3);
            explored.note(seed, &Violation::new("reads", text), seed);
        }
        explored.note(7, &Violation::new("turns", "sector 3 holds [1]"), 1);
        assert_eq!((explored.found.len(), explored.violations()), (2, 21));
        let reads = explored.first().expect("the lowest");
        assert_eq!(reads.violation.what, "sector 0 holds [0, 0]");
        assert_eq!(reads.seeds, (0..20).collect::<Vec<_>>());
    }
}
