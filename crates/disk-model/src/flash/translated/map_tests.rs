use forebay_rng::Rng;

use super::map::{FREE_MIN, FlashMap, MapShape, PageWriter};

/// Pages of a reclaim unit.
const PAGES: u64 = 8;

fn shape(handles: u16) -> MapShape {
    MapShape {
        units: 64,
        reclaim_units: 8 + 8,
        pages: PAGES,
        handles,
    }
}

/// Maps a unit for the host, after collection if necessary. Returns the number of moved pages.
fn write(map: &mut FlashMap, unit: u64) -> u64 {
    let mut moved = 0;
    while map.must_collect(unit) {
        let (victim, units) = map.victim();
        for unit in &units {
            map.map(*unit, PageWriter::Collection);
        }
        moved += units.len() as u64;
        map.freed(victim);
    }
    map.map(unit, PageWriter::Host);
    moved
}

#[test]
fn the_map_stays_consistent_under_random_writes_and_discards() {
    for handles in [1, 3] {
        let mut map = FlashMap::new(shape(handles));
        let rng = Rng::new(5);
        for _ in 0..5000 {
            let unit = rng.below(64);
            match rng.below(8) {
                0 => map.unmap(unit),
                1 => map.place(unit..unit + 1, rng.below(9) as u16),
                _ => {
                    write(&mut map, unit);
                    assert!(map.page_of(unit).is_some());
                }
            }
            map.check();
        }
    }
}

#[test]
fn collection_takes_the_reclaim_unit_with_the_fewest_live_pages() {
    let mut map = FlashMap::new(shape(1));
    for unit in 0..4 * PAGES {
        write(&mut map, unit);
    }
    // Two pages of the third reclaim unit remain.
    for unit in 2 * PAGES + 2..3 * PAGES {
        map.unmap(unit);
    }
    map.unmap(0);
    assert_eq!(map.victim(), (2, vec![2 * PAGES, 2 * PAGES + 1]));
}

#[test]
fn data_that_is_rewritten_sequentially_is_never_moved() {
    let mut map = FlashMap::new(shape(1));
    let moved: u64 = (0..10 * 64).map(|n| write(&mut map, n % 64)).sum();
    assert_eq!(moved, 0);
}

/// Writes two groups of units concurrently. The first is discarded after each round; a quarter of the second is
/// rewritten in each round. Returns the number of moved pages.
fn two_groups(handles: u16) -> u64 {
    let mut map = FlashMap::new(MapShape {
        reclaim_units: 8 + 6,
        ..shape(handles)
    });
    map.place(32..64, 1);
    let mut moved = 0;
    for round in 0..40 {
        for n in 0..32 {
            moved += write(&mut map, n);
            if n % 4 == 0 {
                moved += write(&mut map, 32 + round % 4 * 8 + n / 4);
            }
        }
        (0..32).for_each(|unit| map.unmap(unit));
    }
    moved
}

#[test]
fn handles_separate_data_with_different_discard_times() {
    assert!(two_groups(1) > 0);
    assert_eq!(two_groups(2), 0);
}

#[test]
fn the_reserve_must_fit_open_units_free_units_and_some_garbage() {
    let shape = shape(3);
    assert_eq!(shape.reserve(), 8);
    assert_eq!(shape.reserve_min(), 3 + 1 + FREE_MIN as u64 + 1);
}
