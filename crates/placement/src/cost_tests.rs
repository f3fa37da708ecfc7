use super::*;

/// Checks a value against a slide: the slides give two digits, some of them read off figures.
#[track_caller]
fn near(found: f64, slide: f64) {
    assert!((found - slide).abs() <= 0.006, "{found}, {slide}");
}

const PAGE: u64 = 8 << 10;
const SEGMENT: u64 = 1 << 20;

#[test]
fn the_disk_of_2003_writes_segments_of_a_mebibyte_33_times_as_fast_as_single_pages() {
    let e = DiskParameters::OF_2003.efficiency(PAGE, SEGMENT);
    assert!((e - 33.3).abs() < 0.1, "{e}");
}

#[test]
fn the_crossover_utilisations_of_logging_and_overwriting_equal_those_of_the_slides() {
    // Cleaning utilisation by E, and the disk utilisation of each. The slides' table does not contain the disk of 1999:
    // its E follows from the crossover.
    for (e, cleaning, disk) in [(4.19, 0.52, 0.74), (16.7, 0.88, 0.94), (33.3, 0.94, 0.97)] {
        let u = crossover(e);
        near(u, cleaning);
        near(disk_utilisation(u), disk);
    }
    near(
        crossover(DiskParameters::OF_2003.efficiency(PAGE, SEGMENT)),
        0.94,
    );
}

#[test]
fn the_crossover_of_the_disk_of_1991_is_that_of_segments_of_128_kib() {
    let disk = DiskParameters::OF_1991;
    assert!((crossover(disk.efficiency(PAGE, 128 << 10)) - 0.52).abs() < 0.01);
    // Segments of 1 MiB would have been better.
    near(crossover(disk.efficiency(PAGE, SEGMENT)), 0.62);
}

#[test]
fn overwriting_cleaning_and_hole_plugging_cost_equally_much_at_the_crossover() {
    for e in [3.0, 16.7, 33.3, 200.0] {
        let u = crossover(e);
        assert!((cleaning_cost(u) - e).abs() < 1e-9);
        assert!((hole_plugging_cost(u, e) - e).abs() < 1e-9);
    }
    assert_eq!(crossover(1.5), 0.0);
}

#[test]
fn cleaning_segments_that_are_four_fifths_live_takes_ten_segment_ios() {
    assert!((cleaning_cost(0.8) - 10.0).abs() < 1e-9);
    assert!((write_amplification(0.8) - 5.0).abs() < 1e-9);
}

#[test]
fn the_costs_of_hybrids_and_logs_relative_to_overwriting_equal_those_of_the_slides() {
    let (e, access) = (33.3, AccessDistribution::skewed(0.8, 0.2));
    for (d, hybrid, lfs) in [(0.90, 0.28, 0.31), (0.95, 0.33, 0.61), (0.98, 0.47, 1.51)] {
        near(hybrid_cost(0.2, access.received(0.2), d, e) / e, hybrid);
        near(lfs_cost(d) / e, lfs);
        let best = best_hot_share(&access, d, e);
        assert!(best.cost <= hybrid_cost(0.2, 0.8, d, e), "{best:?}");
    }
}

#[test]
fn the_best_hot_share_is_all_with_enough_free_space_and_falls_as_the_disk_fills() {
    let access = AccessDistribution::skewed(0.8, 0.2);
    let share = |d| best_hot_share(&access, d, 33.3).share;
    assert_eq!(share(0.5), 1.0);
    let shares: Vec<f64> = [0.90, 0.95, 0.98, 0.995].map(share).to_vec();
    assert!(
        shares.windows(2).all(|pair| pair[0] >= pair[1]),
        "{shares:?}"
    );
    assert!((share(0.98) - 0.2).abs() < 0.02);
    assert_eq!(best_hot_share(&access, 1.0, 33.3).share, 0.0);
    // If a segment write is hardly faster than page writes, logging is not worthwhile.
    assert_eq!(best_hot_share(&access, 0.9, 1.9).share, 0.0);
}

#[test]
fn disk_and_cleaning_utilisation_are_inverse_functions() {
    for n in 2..1000 {
        // For smaller d, u cannot be distinguished from 0.
        let d = f64::from(n) / 1000.0;
        assert!(
            (disk_utilisation(cleaning_utilisation(d)) - d).abs() < 1e-9,
            "{d}"
        );
    }
    for (d, u) in [(-1.0, 0.0), (0.0, 0.0), (1e-9, 0.0), (1.0, 1.0), (2.0, 1.0)] {
        assert_eq!(cleaning_utilisation(d), u);
    }
}

#[test]
fn received_shares_of_writes_follow_from_the_access_classes() {
    let access = AccessDistribution::skewed(0.8, 0.2);
    near(access.received(0.1), 0.4);
    near(access.received(0.2), 0.8);
    near(access.received(0.6), 0.9);
    assert_eq!(access.received(7.0), 1.0);
    assert_eq!(access.hottest(0.2), AccessDistribution::uniform());
    assert_eq!(access.hottest(0.0), AccessDistribution::uniform());
    assert!((access.hottest(0.6).received(1.0 / 3.0) - 0.8 / 0.9).abs() < 1e-9);
    // Invalid counts are ignored.
    let odd = [(f64::NAN, 1.0), (0.0, 9.0), (-1.0, 2.0), (3.0, 0.0)];
    assert_eq!(AccessDistribution::of(odd), AccessDistribution::uniform());
}

#[test]
fn a_zipf_distribution_receives_the_sums_of_its_terms() {
    let (pages, s) = (100_000u64, 0.99);
    let access = AccessDistribution::zipf(pages, s);
    let sum = |end: u64| (1..=end).map(|n| (n as f64).powf(-s)).sum::<f64>();
    for part in [10, 16, 100, 10_000, 50_000] {
        let expected = sum(part) / sum(pages);
        let found = access.received(part as f64 / pages as f64);
        // The pages of a class are treated as equal.
        assert!(
            (found - expected).abs() < 0.01,
            "{part}: {found}, {expected}"
        );
    }
    assert!(access.classes().len() < 64);
}

#[test]
fn several_logs_cost_less_than_a_single_log_only_for_uneven_accesses() {
    for access in [
        AccessDistribution::skewed(0.8, 0.2),
        AccessDistribution::zipf(1 << 16, 0.99),
    ] {
        for d in [0.5, 0.8, 0.95] {
            let even = cleaning_utilisation(d);
            let two = separated_utilisation(&access, d, 2);
            let six = separated_utilisation(&access, d, 6);
            assert!(two < even && six <= two, "{even} {two} {six}");
            assert!((separated_utilisation(&access, d, 1) - even).abs() < 1e-6);
        }
    }
    for d in [0.1, 0.5, 0.9, 0.99] {
        let even = cleaning_utilisation(d);
        assert!((separated_utilisation(&AccessDistribution::uniform(), d, 6) - even).abs() < 1e-6);
    }
}

#[test]
fn the_division_of_free_space_between_two_logs_equals_the_best_of_an_exhaustive_search() {
    let (d, access) = (0.9, AccessDistribution::skewed(0.8, 0.2));
    let amplification = |pages: f64, room: f64| {
        let u = cleaning_utilisation(pages / (pages + room));
        write_amplification(u)
    };
    let free = 1.0 / d - 1.0;
    let divided = (1..1000).map(|n| {
        let hot = free * f64::from(n) / 1000.0;
        0.8 * amplification(0.2, hot) + 0.2 * amplification(0.8, free - hot)
    });
    let best = divided.fold(f64::INFINITY, f64::min);
    let found = write_amplification(separated_utilisation(&access, d, 2));
    assert!((found / best - 1.0).abs() < 1e-3, "{found}, {best}");
}

#[test]
fn greedy_cleaning_of_segments_of_few_pages_finds_emptier_segments() {
    for d in [0.5, 0.7, 0.8, 0.9] {
        let many = cleaning_utilisation(d);
        let [four, sixty, thousands] = [4, 64, 16384].map(|pages| greedy_utilisation(d, pages));
        assert!(four < sixty && sixty < many, "{d}: {four}, {sixty}, {many}");
        assert!((thousands - many).abs() < 1e-3, "{d}: {thousands}, {many}");
    }
    // Two pages, at the utilisation at which only segments with one live page are cleaned: H(2) − H(1) is a half, so d
    // = 1. With no live pages: H(2) is 1.5, so d = 2/3.
    assert_eq!(greedy_utilisation(0.66, 2), 0.0);
    assert!(greedy_utilisation(0.67, 2) > 0.0);
    assert!((greedy_utilisation(1.0 - 1e-9, 2) - 0.5).abs() < 1e-6);
    assert_eq!(greedy_utilisation(0.9, 1), 0.0);
}
