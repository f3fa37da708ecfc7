//! A short run of the simulator on the filesystem, with fixed scenarios.

use std::time::Duration;

use forebay_sim::explore::{Exploration, explore};
use forebay_sim_targets::files::{FilesScenario, run};

#[test]
fn scenarios_of_fixed_seeds_keep_every_guarantee() {
    let what = Exploration {
        scenario: &|seed| run(&FilesScenario::of_seed(seed)),
        seed: 1,
        time: Duration::from_secs(600),
        scenarios: Some(150),
        points: None,
        jobs: 2,
        violations: 1,
    };
    let found = explore(&what, &|_, _| ());
    if let Some(first) = found.first() {
        let (seed, violation) = (first.seeds[0], &first.violation);
        panic!("seed {seed}: {violation}\nforebay-sim replay --system files {seed} tells more");
    }
    assert!(
        found.tally.cycles > 2000 && found.tally.cuts_in_recovery > 300,
        "{found}"
    );
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 1..6 {
        let scenario = FilesScenario::of_seed(seed);
        let digest = run(&scenario).digest;
        assert_eq!(run(&scenario).digest, digest, "seed {seed}");
    }
}
