//! A short run of scenarios of aged volumes that are always the same.

use forebay_subjects::aged::{AgedPlan, run};

/// Scenarios of most kinds of age.
const SEEDS: [u64; 11] = [4, 18, 19, 33, 35, 42, 44, 49, 58, 60, 62];

#[test]
fn aged_volumes_keep_every_promise() {
    for seed in SEEDS {
        let outcome = run(&AgedPlan::of_seed(seed));
        if let Some(violation) = outcome.violation {
            panic!("seed {seed}: {violation}\nforebay-sim replay --subject aged {seed} tells more");
        }
    }
}

#[test]
fn the_same_seed_is_the_same_scenario() {
    for seed in [18, 42, 58] {
        let digest = run(&AgedPlan::of_seed(seed)).digest;
        let again = std::thread::spawn(move || run(&AgedPlan::of_seed(seed)).digest);
        assert_eq!(again.join().expect("no panic"), digest, "seed {seed}");
    }
}
