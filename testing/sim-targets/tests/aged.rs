//! A short run of fixed scenarios of aged volumes.

use forebay_sim_targets::aged::{AgedPlan, run};

/// Scenarios of most ages.
const SEEDS: [u64; 11] = [4, 18, 19, 33, 35, 42, 44, 49, 58, 60, 62];

#[test]
fn aged_volumes_keep_every_guarantee() {
    for seed in SEEDS {
        let outcome = run(&AgedPlan::of_seed(seed));
        if let Some(violation) = outcome.violation {
            panic!("seed {seed}: {violation}\nforebay-sim replay --system aged {seed} tells more");
        }
    }
}

/// The cleaner moved data of many segments together, and writers took the segments that it had planned to fill. The
/// cleaner was left at its floor with nearly empty segments and no empty segment, and writers waited without end.
#[test]
fn writers_progress_after_taking_segments_that_the_cleaner_planned_to_fill() {
    let outcome = run(&AgedPlan::of_day(1_300_000_118));
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
}

/// All garbage was four sectors in one of 68 segments. The cleaner moved that segment again and again, and each move
/// ended with four sectors of garbage in another segment.
#[test]
fn the_cleaner_leaves_an_idle_volume_alone_if_no_segment_can_be_gained() {
    for seed in [2_400_000_112, 2_400_000_118, 5_800_000_027] {
        let outcome = run(&AgedPlan::of_day(seed));
        assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    }
}

/// A log of 128 segments kept one segment free, and its map had memory for the nodes of one record. The padding of
/// records with one-sector fragments used up the gain of cleaning, and a write waited without end.
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
