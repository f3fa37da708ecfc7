//! A short run of scenarios of aged volumes that are always the same.

use forebay_sim_targets::aged::{AgedPlan, run};

/// Scenarios of most kinds of age.
const SEEDS: [u64; 11] = [4, 18, 19, 33, 35, 42, 44, 49, 58, 60, 62];

#[test]
fn aged_volumes_keep_every_guarantee() {
    for seed in SEEDS {
        let outcome = run(&AgedPlan::of_seed(seed));
        if let Some(violation) = outcome.violation {
            panic!("seed {seed}: {violation}\nforebay-sim replay --subject aged {seed} tells more");
        }
    }
}

/// Writers took segments that the cleaner had planned to fill while it moved data of many segments together. The cleaner was left
/// at its floor with nearly empty segments and no empty one, and writers waited for ever.
#[test]
fn writers_progress_after_taking_segments_that_the_cleaner_planned_to_fill() {
    let outcome = run(&AgedPlan::of_day(1_300_000_118));
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
}

/// All garbage was four sectors in one of 68 segments. The cleaner moved that segment again and again, and each move ended with
/// four sectors of garbage in another one.
#[test]
fn the_cleaner_leaves_an_idle_volume_alone_if_no_segment_can_be_gained() {
    for seed in [2_400_000_112, 2_400_000_118, 5_800_000_027] {
        let outcome = run(&AgedPlan::of_day(seed));
        assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    }
}

/// Of 128 segments of a log one was kept free, and its map had memory for one record's nodes. The padding of records of one-sector pieces
/// took what cleaning gained, and a write waited for ever.
#[test]
fn cleaning_gains_space_with_small_fragments_in_short_records() {
    let outcome = run(&AgedPlan::of_day(6_000_000_072));
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    let outcome = run(&AgedPlan::of_seed(6_000_001_443));
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
}

#[test]
fn the_same_seed_gives_the_same_scenario() {
    for seed in [18, 42, 58] {
        let digest = run(&AgedPlan::of_seed(seed)).digest;
        let again = std::thread::spawn(move || run(&AgedPlan::of_seed(seed)).digest);
        assert_eq!(again.join().expect("no panic"), digest, "seed {seed}");
    }
}
