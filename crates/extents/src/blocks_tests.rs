//! Neighbouring blocks with checksums of their own.

use forebay_rng::Rng;

use super::*;

const VOLUME: VolumeId = VolumeId([7; 16]);
const BLOCKS: u64 = 20_000;

/// Block `n`, `shift` sectors behind where it lies with all others.
fn block(n: u64, shift: u64) -> Extent {
    Extent {
        sector: 8 * n,
        sectors: 8,
        place: Place(1_000_000 + 8 * n + shift),
        check: Check::Own((n * 7 + shift) as u32),
    }
}

fn all(map: &Map) -> Vec<Extent> {
    let mut found = Vec::new();
    map.get(0..u64::MAX, &mut found).unwrap();
    found
}

fn filled() -> Map {
    let mut map = Map::new(VOLUME, Shape::default());
    for n in 0..BLOCKS {
        map.set(block(n, 0), &mut Changes::default()).unwrap();
    }
    map
}

#[test]
fn neighbouring_blocks_with_checksums_of_their_own_take_four_bytes_each() {
    let map = filled();
    map.check().unwrap();
    assert_eq!(all(&map), (0..BLOCKS).map(|n| block(n, 0)).collect::<Vec<_>>());
    // 1,009 of one run fill a leaf.
    assert_eq!((map.entries(), map.nodes()), (BLOCKS, BLOCKS.div_ceil(1009) + 1));
}

#[test]
fn blocks_that_leave_their_run_and_come_back_never_overfill_a_leaf() {
    let mut map = filled();
    let rng = Rng::new(3);
    let mut order: Vec<u64> = (0..BLOCKS).collect();
    rng.shuffle(&mut order);
    let mut most = 0;
    for shift in [1 << 20, 0] {
        for (done, n) in order.iter().enumerate() {
            map.set(block(*n, shift), &mut Changes::default()).unwrap();
            if done.is_multiple_of(500) {
                map.check().unwrap();
            }
            most = most.max(map.nodes());
        }
        map.check().unwrap();
        assert_eq!(all(&map), (0..BLOCKS).map(|n| block(n, shift)).collect::<Vec<_>>());
    }
    // Where every second one is elsewhere, each has an entry of its own: 253 fill a leaf, and half of them at least.
    assert!(most < BLOCKS / 126 + 4, "{most}");
    // Leaves that are emptier again are joined, up to three quarters of a block.
    assert!(map.nodes() < BLOCKS / 336, "{}", map.nodes());
    let mut medium = Vec::new();
    map.freeze();
    while let Some(node) = map.next_to_write() {
        let place = Place(1 << 40 | 8 * medium.len() as u64);
        medium.push((place, node.bytes));
        map.written(place);
    }
    let root = map.complete().root;
    let mut map = Map::open(VOLUME, Shape::default(), root, &[]);
    let mut found = Vec::new();
    while let Err(need) = map.get(0..u64::MAX, &mut found) {
        let (_, bytes) = medium.iter().find(|(place, _)| *place == need.place).unwrap();
        map.load(&need, bytes).unwrap();
    }
    map.check().unwrap();
    assert_eq!(found, (0..BLOCKS).map(|n| block(n, 0)).collect::<Vec<_>>());
}
