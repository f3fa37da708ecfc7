use super::*;
use forebay_rng::Rng;

const PAGE: u64 = 16;

/// Creates the state of a disk with this many pages of data and utilisation `d`.
fn heat(pages: u64, d: f64) -> PageHeat {
    let mut heat = PageHeat::new(&PlacementOptions::default());
    let live = pages * PAGE;
    heat.filled(FillLevel {
        live,
        capacity: (live as f64 / d) as u64,
    });
    heat
}

/// Writes single pages: `hot` of a hundred go to the first `part` percent. While everything is logged, the moved amount
/// follows the model.
fn write(heat: &mut PageHeat, rng: &Rng, pages: u64, times: u64, part: (u64, u64)) {
    write_with_cost(heat, rng, pages, times, part, 1.0);
}

/// Writes single pages like [`write`]. A log costs `factor` times the model's value.
fn write_with_cost(
    heat: &mut PageHeat,
    rng: &Rng,
    pages: u64,
    times: u64,
    part: (u64, u64),
    factor: f64,
) {
    let mut owed = 0.0;
    for _ in 0..times {
        let before = heat.logged.written;
        write_only(heat, rng, pages, 1, part);
        let share = heat.best().share;
        let dense = hot_log_utilisation(share, heat.fill.utilisation());
        let cost = factor * cleaning_cost(greedy_utilisation(dense, heat.segment_pages()));
        if heat.logged.written > before {
            owed += 0.5 * (cost - 1.0) * PAGE as f64;
        }
        heat.moved(owed as u32);
        owed -= owed.floor();
    }
}

fn write_only(heat: &mut PageHeat, rng: &Rng, pages: u64, times: u64, (hot, part): (u64, u64)) {
    let bound = pages * part / 100;
    for _ in 0..times {
        let page = if rng.below(100) < hot {
            rng.below(bound)
        } else {
            bound + rng.below(pages - bound)
        };
        let (at, long) = (Sector(page * PAGE), PAGE as u32);
        let (is_logged, _) = heat.judge(at, long, Some(0));
        heat.wrote(at, long, is_logged);
    }
}

fn share_hot(heat: &PageHeat, pages: std::ops::Range<u64>) -> f64 {
    let many = pages.end - pages.start;
    let is_hot = |page: &u64| heat.judge(Sector(page * PAGE), PAGE as u32, Some(0)).0;
    pages.filter(is_hot).count() as f64 / many as f64
}

#[test]
fn frequently_written_pages_of_a_full_disk_are_classified_as_hot() {
    let (pages, rng) = (20_000, Rng::new(1));
    let mut heat = heat(pages, 0.98);
    write(&mut heat, &rng, pages, 10 * pages, (80, 20));
    assert!((heat.best().share - 0.2).abs() < 0.05, "{:?}", heat.best());
    assert!(
        (0.65..0.8).contains(&heat.best().received),
        "{:?}",
        heat.best()
    );
    let (hot, cold) = (share_hot(&heat, 0..4000), share_hot(&heat, 4000..pages));
    assert!(hot > 0.8 && cold < 0.05, "{hot}, {cold}");
}

#[test]
fn random_variation_of_uniform_accesses_is_not_taken_for_skew() {
    let (pages, rng) = (20_000, Rng::new(2));
    let mut heat = heat(pages, 0.9);
    write(&mut heat, &rng, pages, 10 * pages, (50, 50));
    // Logging everything costs a third of overwriting here.
    assert!(heat.best().share > 0.95, "{:?}", heat.best());
    assert!(
        (heat.best().cost / 9.4 - 1.0).abs() < 0.1,
        "{:?}",
        heat.best()
    );
}

#[test]
fn with_enough_free_space_all_pages_are_hot() {
    let (pages, rng) = (20_000, Rng::new(3));
    let mut heat = heat(pages, 0.4);
    write(&mut heat, &rng, pages, 10 * pages, (80, 20));
    assert_eq!(heat.best().share, 1.0);
    assert_eq!(share_hot(&heat, 0..pages), 1.0);
}

#[test]
fn all_pages_stay_logged_if_the_measured_cost_is_below_the_cost_model() {
    let (pages, d) = (20_000, 0.92);
    // Sectors moved per sector that clients wrote: almost none, one and a half, the model's value, or more.
    for (moved, divides) in [(0.01, false), (1.5, false), (5.3, true), (9.0, true)] {
        let (mut heat, rng) = (heat(pages, d), Rng::new(7));
        for _ in 0..20 {
            if !heat.divides() {
                heat.moved((moved * (pages / 2 * PAGE) as f64) as u32);
            }
            write_only(&mut heat, &rng, pages, pages / 2, (80, 20));
        }
        assert_eq!(heat.divides(), divides, "{moved}: {:?}", heat.best());
    }
}

#[test]
fn newly_hot_pages_are_found_and_formerly_hot_pages_are_forgotten() {
    let (pages, rng) = (20_000, Rng::new(4));
    let mut heat = heat(pages, 0.98);
    write(&mut heat, &rng, pages, 10 * pages, (80, 20));
    // Now four fifths of the writes go to the last fifth.
    let mirrored = |heat: &mut PageHeat, times| {
        for _ in 0..times {
            let page = if rng.below(100) < 80 {
                pages - 1 - rng.below(pages / 5)
            } else {
                rng.below(pages * 4 / 5)
            };
            let (at, long) = (Sector(page * PAGE), PAGE as u32);
            let (is_logged, _) = heat.judge(at, long, Some(0));
            heat.wrote(at, long, is_logged);
        }
    };
    mirrored(&mut heat, 8 * pages);
    let (new, old) = (share_hot(&heat, 16_000..pages), share_hot(&heat, 0..4000));
    assert!(new > 0.8 && old < 0.1, "{new}, {old}");
}

#[test]
fn long_writes_gain_less_from_a_log() {
    let (pages, rng) = (20_000u64, Rng::new(5));
    let mut heat = heat(pages, 0.98);
    let single = heat.home_cost();
    for _ in 0..pages / 16 {
        heat.moved(640 * PAGE as u32);
        heat.wrote(
            Sector(rng.below(pages / 64) * 64 * PAGE),
            64 * PAGE as u32,
            true,
        );
    }
    assert!(
        (single - 17.1).abs() < 0.1 && heat.home_cost() < 1.5,
        "{}",
        heat.home_cost()
    );
    assert_eq!(heat.best().share, 0.0);
    assert_eq!(share_hot(&heat, 0..pages), 0.0);
}

#[test]
fn without_measurements_all_pages_are_logged_to_measure_the_cost() {
    for fresh in [
        heat(20_000, 0.92),
        PageHeat::new(&PlacementOptions::default()),
    ] {
        assert_eq!(fresh.judge(Sector(0), 999, None), (true, 999));
        assert_eq!(fresh.judge(Sector(0), 999, Some(1 << 40)), (true, 999));
    }
}

#[test]
fn without_measurements_no_page_is_logged_if_that_costs_far_more_than_writing_in_place() {
    let (pages, rng) = (20_000, Rng::new(8));
    let fill = |d: f64| FillLevel {
        live: pages * PAGE,
        capacity: ((pages * PAGE) as f64 / d) as u64,
    };
    let mut heat = heat(pages, 0.6);
    let is_logged = |heat: &PageHeat| heat.judge(Sector(0), 16, Some(0)).0;
    assert!(is_logged(&heat));
    heat.filled(fill(0.995));
    assert!(!is_logged(&heat), "{:?}", heat.best());
    // Also after a restart with a state in which nothing was measured.
    let mut after = PageHeat::new(&PlacementOptions::default());
    after.restore(1.0, u64::MAX, heat.measured());
    after.filled(fill(0.995));
    assert!(!is_logged(&after));
    heat.filled(fill(0.6));
    assert!(is_logged(&heat));
    // A low measured cost overrides the model's high cost.
    let mut cheap = self::heat(pages, 0.92);
    for _ in 0..4 {
        cheap.moved(1000 * PAGE as u32);
        write_only(&mut cheap, &rng, pages, pages / 2, (80, 20));
    }
    let mut after = PageHeat::new(&PlacementOptions::default());
    after.restore(cheap.best().share, cheap.lifetime(), cheap.measured());
    after.filled(fill(0.995));
    assert!(is_logged(&after), "{:?}", after.best());
}

#[test]
fn after_a_restart_lifetimes_are_compared_with_the_saved_threshold() {
    let (pages, rng) = (20_000, Rng::new(6));
    let mut before = heat(pages, 0.98);
    write(&mut before, &rng, pages, 10 * pages, (80, 20));
    let mut after = PageHeat::new(&PlacementOptions::default());
    after.restore(before.best().share, before.lifetime(), before.measured());
    after.filled(before.fill);
    assert_eq!(after.best().share, before.best().share);
    // On average a hot page is rewritten after a quarter of the data, and a cold page after four times the data.
    let hot = |part: f64| {
        after
            .judge(Sector(0), 8, Some((part * (pages * PAGE) as f64) as u64))
            .0
    };
    assert!(hot(0.25) && !hot(4.0), "{}", after.lifetime());
}

#[test]
fn merging_counts_into_classes_loses_no_pages_and_no_writes() {
    let (pages, writes) = ([1.0; 256], [2; 256]);
    let classes = classes(&pages, &writes);
    assert_eq!(classes.iter().map(|class| class.0).sum::<f64>(), 256.0);
    assert_eq!(classes.iter().map(|class| class.1).sum::<f64>(), 512.0);
    assert_eq!(classes.len(), 16 + 4 * 4);
}

#[test]
fn a_hot_log_that_costs_more_than_expected_shrinks_or_ends_and_is_tried_again_later() {
    let (pages, rng) = (20_000, Rng::new(8));
    let as_expected = {
        let mut heat = heat(pages, 0.95);
        write(&mut heat, &rng, pages, 10 * pages, (80, 20));
        heat.best().share
    };
    assert!((0.1..0.3).contains(&as_expected), "{as_expected}");
    let mut heat = heat(pages, 0.95);
    let (mut divided, mut most, mut last) = (0, 0.0, false);
    let (mut begun, epochs) = (0, 200);
    for _ in 0..epochs {
        let length = heat.epoch_length();
        write_with_cost(&mut heat, &rng, pages, length, (80, 20), 20.0);
        let divides = heat.divides();
        divided += u32::from(divides);
        begun += u32::from(divides && !last);
        most = f64::max(most, if divides { heat.best().share } else { 0.0 });
        last = divides;
    }
    assert!(begun >= 2, "tried again: {begun}");
    assert!(divided < epochs / 4, "{divided} of {epochs}");
    assert!(most <= as_expected + 0.1, "{most}");
}

#[test]
fn a_division_that_costs_too_much_ends_within_its_epoch() {
    let (pages, rng) = (20_000, Rng::new(11));
    let mut heat = heat(pages, 0.95);
    write(&mut heat, &rng, pages, 2 * pages, (80, 20));
    assert!(heat.divides(), "{:?}", heat.best());
    // From now on, cleaning moves twenty times the data that is logged.
    let mut written = 0;
    while heat.divides() {
        let before = heat.logged.written;
        write_only(&mut heat, &rng, pages, 1, (80, 20));
        if heat.logged.written > before {
            heat.moved(20 * PAGE as u32);
        }
        written += 1;
        assert!(written < pages / 4, "it goes on");
    }
    assert_eq!(heat.best(), &heat.undivided);
    // A new division waits until writes have earned a budget.
    write_only(&mut heat, &rng, pages, pages, (80, 20));
    assert!(!heat.divides(), "{:?}", heat.best());
}
