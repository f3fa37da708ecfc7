//! Neighbouring blocks with checksums of their own.

use std::collections::BTreeMap;

use forebay_rng::Rng;

use super::*;
use crate::extent::LeafExtent;

const VOLUME: VolumeId = VolumeId([7; 16]);
const BLOCKS: u64 = 20_000;

/// Returns block `n`, displaced by `shift` sectors from the place that continues the other blocks.
fn block(n: u64, shift: u64) -> MapExtent {
    MapExtent {
        sector: 8 * n,
        sectors: 8,
        place: LogPlace(1_000_000 + 8 * n + shift),
        check: ExtentCheck::Own((n * 7 + shift) as u32),
    }
}

fn all(map: &ExtentMap) -> Vec<MapExtent> {
    let mut found = Vec::new();
    map.get(0..u64::MAX, &mut found).unwrap();
    found
}

fn filled() -> ExtentMap {
    let mut map = ExtentMap::new(VOLUME, NodeCapacity::default());
    for n in 0..BLOCKS {
        map.set(block(n, 0), &mut MapChanges::default()).unwrap();
    }
    map
}

#[test]
fn adjacent_blocks_with_their_own_checksums_take_four_bytes_each() {
    let map = filled();
    map.check().unwrap();
    assert_eq!(
        all(&map),
        (0..BLOCKS).map(|n| block(n, 0)).collect::<Vec<_>>()
    );
    // A leaf holds 1,009 blocks that continue each other.
    assert_eq!(
        (map.entries(), map.nodes()),
        (BLOCKS, BLOCKS.div_ceil(1009) + 1)
    );
}

#[test]
fn blocks_that_leave_their_extent_and_return_never_overfill_a_leaf() {
    let mut map = filled();
    let rng = Rng::new(3);
    let mut order: Vec<u64> = (0..BLOCKS).collect();
    rng.shuffle(&mut order);
    let mut most = 0;
    for shift in [1 << 20, 0] {
        for (done, n) in order.iter().enumerate() {
            map.set(block(*n, shift), &mut MapChanges::default())
                .unwrap();
            if done.is_multiple_of(500) {
                map.check().unwrap();
            }
            most = most.max(map.nodes());
        }
        map.check().unwrap();
        assert_eq!(
            all(&map),
            (0..BLOCKS).map(|n| block(n, shift)).collect::<Vec<_>>()
        );
    }
    // While every second block is displaced, each has an entry of its own. A leaf has space for 253 entries and is at
    // least half full.
    assert!(most < BLOCKS / 126 + 4, "{most}");
    // Leaves that became emptier are joined, up to three quarters of a block.
    assert!(map.nodes() < BLOCKS / 336, "{}", map.nodes());
    let mut medium = Vec::new();
    map.freeze();
    while let Some(node) = map.next_to_write() {
        let place = LogPlace((1 << 40) + 8 * medium.len() as u64);
        medium.push((place, node.bytes));
        map.written(place);
    }
    let root = map.complete().root;
    let mut map = ExtentMap::open(VOLUME, NodeCapacity::default(), root, &[]);
    let mut found = Vec::new();
    while let Err(need) = map.get(0..u64::MAX, &mut found) {
        let (_, bytes) = medium
            .iter()
            .find(|(place, _)| *place == need.place)
            .unwrap();
        map.load(&need, bytes).unwrap();
    }
    map.check().unwrap();
    assert_eq!(found, (0..BLOCKS).map(|n| block(n, 0)).collect::<Vec<_>>());
}

/// Sums the changes of a map, and compares the result with its extents and their `follows` flags.
#[test]
fn reported_changes_add_up_to_the_extents_of_the_map() {
    let rng = Rng::new(11);
    let (mut followers, mut pours) = (0, 0);
    for round in 0..120 {
        let shape = NodeCapacity {
            leaf: rng.pick(&[4, 5, 8, 20]),
            inner: 6,
        };
        let mut map = ExtentMap::new(VOLUME, shape);
        let mut known = BTreeMap::<LeafExtent, i32>::new();
        let mut count = |changes: &MapChanges| {
            for (extents, by) in [(&changes.new, 1), (&changes.rest, 1), (&changes.gone, -1)] {
                for one in extents {
                    *known.entry(*one).or_default() += by;
                }
            }
        };
        for n in 0..300 {
            let (from, sectors) = (rng.below(400), 1 + rng.below(30));
            let mut changes = MapChanges::default();
            let (sector, sectors, check) = match rng.below(if round % 2 == 0 { 4 } else { 20 }) {
                0 => (from, sectors, ExtentCheck::Segment),
                1 => (from, sectors.min(8), ExtentCheck::Inline(n as u32)),
                _ => (from / 8 * 8, 8, ExtentCheck::Own(n as u32)),
            };
            // The place often continues other extents, in the space and on the device.
            let place = LogPlace(if rng.one_in(4) {
                10_000 * n
            } else {
                1000 + sector
            });
            let to = MapExtent {
                sector,
                sectors,
                place,
                check,
            };
            let nodes = map.nodes();
            match rng.below(if round % 2 == 0 { 5 } else { 12 }) {
                0 => map.clear(from..from + sectors, &mut changes),
                1 => map.detach(from..from + 5 * sectors, &mut changes),
                2 => map.reap(&mut changes).map(drop),
                3 => map.replace_if(LogPlace(1000 + sector), to, &mut changes),
                _ => map.set(to, &mut changes),
            }
            .expect("all is in memory");
            pours += usize::from(map.nodes() < nodes);
            count(&changes);
        }
        loop {
            let mut changes = MapChanges::default();
            let more = map.reap(&mut changes).expect("all is in memory");
            count(&changes);
            if !more {
                break;
            }
        }
        let mut there = Vec::new();
        let mut walk = map.walk();
        while let Some(visit) = walk.next(&map).expect("all is in memory") {
            if let MapVisit::Extent(extent) = visit {
                followers += usize::from(extent.follows);
                there.push((extent, 1));
            }
        }
        let known = known.into_iter().filter(|(_, count)| *count != 0);
        assert_eq!(known.collect::<Vec<_>>(), there, "round {round}");
    }
    assert!(followers > 100 && pours > 500, "{followers} {pours}");
}

#[test]
fn leaves_are_four_fifths_full_after_insertions_in_random_order() {
    let rng = Rng::new(17);
    let mut order: Vec<u64> = (0..60_000).collect();
    rng.shuffle(&mut order);
    let mut map = ExtentMap::new(VOLUME, NodeCapacity::default());
    for (done, n) in order.into_iter().enumerate() {
        // Only every second block is mapped, so that none continues another.
        map.set(block(2 * n, 0), &mut MapChanges::default())
            .unwrap();
        if done == 30_000 {
            map.check().unwrap();
        }
    }
    map.check().unwrap();
    let filled = map.entries() * 16 * 100 / (map.nodes() * NODE_BYTES as u64);
    assert!((78..=90).contains(&filled), "{filled} %");
}
