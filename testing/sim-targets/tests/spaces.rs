//! A short run of the simulator on the log-structured volume, with fixed scenarios.

use std::time::Duration;

use forebay_sim::exhaustive::{cases, try_all};
use forebay_sim::explore::{Exploration, explore, of_seed};
use forebay_sim::scenario;
use forebay_sim::system::TestedSystem;
use forebay_sim_targets::space::SpaceTarget;

#[test]
fn scenarios_of_fixed_seeds_keep_every_guarantee() {
    let what = Exploration {
        scenario: &of_seed::<SpaceTarget>,
        seed: 1,
        time: Duration::from_secs(600),
        scenarios: Some(300),
        points: None,
        jobs: 2,
        violations: 1,
    };
    let found = explore(&what, &|_, _| ());
    if let Some(first) = found.first() {
        let (seed, violation) = (first.seeds[0], &first.violation);
        panic!("seed {seed}: {violation}\nforebay-sim replay --system space {seed} tells more");
    }
}

#[test]
fn all_crash_points_and_faults_of_a_scripted_run_keep_every_guarantee() {
    let tried = try_all(&cases::<SpaceTarget>(7), 2);
    assert!(tried.tally.cycles > 1000 && tried.tally.cuts_in_recovery > 100);
    if let Some((name, outcome)) = tried.violations.first() {
        let violation = outcome.violation.as_ref().expect("a violation");
        panic!("{name}: {violation}\n{}", outcome.lines.join("\n"));
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 1..8 {
        let plan = SpaceTarget::plan(seed);
        let digest = scenario::run(&plan, false).digest;
        assert_eq!(scenario::run(&plan, false).digest, digest, "seed {seed}");
    }
}

/// The cleaner composed a record while the last record of a batch was still open, and so cut the batch in two. A crash
/// between the records left a part of the batch. Explored scenarios found this mistake, first with these seeds.
#[test]
fn the_records_of_a_batch_are_contiguous() {
    for seed in [20, 222, 314, 419, 495, 776] {
        let violation = scenario::run(&SpaceTarget::plan(seed), false).violation;
        assert!(violation.is_none(), "seed {seed}: {violation:?}");
    }
}
