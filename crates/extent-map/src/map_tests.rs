use forebay_rng::Rng;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::format::StoredNode;

const VOLUME: VolumeId = VolumeId([7; 16]);
const SMALL: NodeCapacity = NodeCapacity { leaf: 8, inner: 6 };

fn extent(sector: u64, sectors: u64, place: u64, check: ExtentCheck) -> MapExtent {
    let place = LogPlace(place);
    MapExtent {
        sector,
        sectors,
        place,
        check,
    }
}

fn inline(sector: u64, sectors: u64, place: u64, crc: u32) -> MapExtent {
    extent(sector, sectors, place, ExtentCheck::Inline(crc))
}

/// Sectors of the space that lay at a place until they were mapped elsewhere or unmapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ReplacedExtent {
    sector: u64,
    sectors: u64,
    place: LogPlace,
}

/// Returns the parts of removed extents in `range`.
fn replaced_in(range: Range<u64>, changes: &MapChanges) -> Vec<ReplacedExtent> {
    let parts = changes
        .gone
        .iter()
        .filter_map(|one| one.extent.part(range.clone()));
    let replaced = |part: MapExtent| replaced(part.sector, part.sectors, part.place.0);
    parts.map(replaced).collect()
}

fn set(map: &mut ExtentMap, extent: MapExtent) -> Vec<ReplacedExtent> {
    let mut changes = MapChanges::default();
    map.set(extent, &mut changes).expect("all is in memory");
    replaced_in(extent.sector..extent.end(), &changes)
}

fn clear(map: &mut ExtentMap, range: Range<u64>) -> Vec<ReplacedExtent> {
    let mut changes = MapChanges::default();
    map.clear(range.clone(), &mut changes)
        .expect("all is in memory");
    replaced_in(range, &changes)
}

fn all(map: &ExtentMap) -> Vec<MapExtent> {
    let mut found = Vec::new();
    map.get(0..u64::MAX, &mut found).expect("all is in memory");
    found
}

fn replaced(sector: u64, sectors: u64, place: u64) -> ReplacedExtent {
    let place = LogPlace(place);
    ReplacedExtent {
        sector,
        sectors,
        place,
    }
}

/// Writes a whole checkpoint to `medium`, from the place `from` on.
fn checkpoint(
    map: &mut ExtentMap,
    medium: &mut Vec<(LogPlace, [u8; NODE_BYTES])>,
    from: u64,
) -> CompletedCheckpoint {
    map.freeze();
    write_all(map, medium, from);
    map.complete()
}

/// Writes all nodes of the snapshot under way, from the place `from` on. Returns their number.
fn write_all(
    map: &mut ExtentMap,
    medium: &mut Vec<(LogPlace, [u8; NODE_BYTES])>,
    from: u64,
) -> usize {
    let mut count = 0;
    while let Some(node) = map.next_to_write() {
        let place = LogPlace(from + 8 * count as u64);
        medium.push((place, node.bytes));
        map.written(place);
        count += 1;
    }
    count
}

/// Returns a map of `extents` extents that do not continue each other.
fn filled(shape: NodeCapacity, extents: u64) -> ExtentMap {
    let mut map = ExtentMap::new(VOLUME, shape);
    for at in 0..extents {
        set(&mut map, inline(at * 16, 8, at * 24, at as u32));
    }
    map
}

/// Calls `act` until no node is missing, and loads missing nodes from `medium`.
fn loaded<T>(
    map: &mut ExtentMap,
    medium: &[(LogPlace, [u8; NODE_BYTES])],
    mut act: impl FnMut(&mut ExtentMap) -> Result<T, NeededNode>,
) -> T {
    loop {
        match act(map) {
            Ok(done) => return done,
            Err(need) => {
                let (_, bytes) = medium
                    .iter()
                    .find(|(place, _)| *place == need.place)
                    .unwrap();
                map.load(&need, bytes).unwrap();
            }
        }
    }
}

#[test]
fn a_random_page_write_adds_an_inline_entry_and_keeps_its_neighbours() {
    let mut map = ExtentMap::new(VOLUME, NodeCapacity::default());
    assert_eq!(
        set(&mut map, extent(0, 1000, 5000, ExtentCheck::Segment)),
        []
    );
    let gone = set(&mut map, inline(80, 8, 9000, 7));
    assert_eq!(gone, [replaced(80, 8, 5080)]);
    let expected = [
        extent(0, 80, 5000, ExtentCheck::Segment),
        inline(80, 8, 9000, 7),
        extent(88, 912, 5088, ExtentCheck::Segment),
    ];
    assert_eq!(all(&map), expected);
    assert_eq!(
        (map.entries(), map.mapped_sectors(), map.nodes()),
        (3, 1000, 1)
    );
}

#[test]
fn remainders_of_an_extent_with_its_own_checksum_have_no_checksum() {
    let mut map = ExtentMap::new(VOLUME, NodeCapacity::default());
    set(&mut map, extent(0, 8, 100, ExtentCheck::Own(1)));
    set(&mut map, extent(8, 8, 108, ExtentCheck::Own(2)));
    set(&mut map, inline(2, 3, 200, 3));
    let expected = [
        extent(0, 2, 100, ExtentCheck::None),
        inline(2, 3, 200, 3),
        extent(5, 3, 105, ExtentCheck::None),
        extent(8, 8, 108, ExtentCheck::Own(2)),
    ];
    assert_eq!(all(&map), expected);
}

#[test]
fn remainders_of_an_inline_extent_are_checked_by_their_segment() {
    let mut map = ExtentMap::new(VOLUME, NodeCapacity::default());
    set(&mut map, inline(0, 8, 100, 1));
    assert_eq!(set(&mut map, inline(2, 3, 200, 2)), [replaced(2, 3, 102)]);
    let expected = [
        extent(0, 2, 100, ExtentCheck::Segment),
        inline(2, 3, 200, 2),
        extent(5, 3, 105, ExtentCheck::Segment),
    ];
    assert_eq!(all(&map), expected);
    let mut part = Vec::new();
    map.get(3..4, &mut part).unwrap();
    assert_eq!(part, [extent(3, 1, 201, ExtentCheck::Segment)]);
    assert_eq!(
        clear(&mut map, 2..6),
        [replaced(2, 3, 200), replaced(5, 1, 105)]
    );
    assert_eq!(map.mapped_sectors(), 4);
}

#[test]
fn extents_join_only_if_adjacent_both_in_the_space_and_on_the_device() {
    let mut map = ExtentMap::new(VOLUME, NodeCapacity::default());
    set(&mut map, inline(0, 8, 100, 1));
    set(&mut map, inline(16, 8, 116, 3));
    set(&mut map, inline(8, 8, 108, 2));
    assert_eq!(all(&map), [extent(0, 24, 100, ExtentCheck::Segment)]);
    // The extents continue the first on the device only, in the space only, and in both but without checksums in the
    // segment.
    set(&mut map, inline(32, 8, 124, 4));
    set(&mut map, inline(24, 8, 300, 5));
    set(&mut map, extent(40, 8, 132, ExtentCheck::None));
    assert_eq!(map.entries(), 4);
    set(&mut map, extent(48, 8, 140, ExtentCheck::None));
    set(&mut map, extent(56, 8, 148, ExtentCheck::Own(6)));
    assert_eq!(map.entries(), 6);
}

#[test]
fn an_extent_of_any_length_is_split_and_read_back_as_consecutive_extents() {
    let mut map = ExtentMap::new(VOLUME, NodeCapacity::default());
    set(&mut map, extent(5, 100_000, 9, ExtentCheck::Segment));
    let found = all(&map);
    assert!(found.iter().all(|part| part.sectors <= EXTENT_SECTORS_MAX));
    assert_eq!(found.len(), 13);
    assert_eq!(map.next_mapped(0..u64::MAX), Ok(Some(5..100_005)));
    assert_eq!(map.mapped_sectors(), 100_000);
    assert_eq!(map.next_mapped(50..60), Ok(Some(50..60)));
    assert_eq!(map.next_mapped(100_005..u64::MAX), Ok(None));
}

#[test]
fn entries_too_far_apart_for_a_leaf_are_in_several_leaves() {
    let mut map = ExtentMap::new(VOLUME, NodeCapacity::default());
    let sectors = [5, 3, 1 << 29, 1 << 28, u64::MAX - 1, 1 << 63, (1 << 29) - 1];
    for (at, sector) in sectors.into_iter().enumerate() {
        set(&mut map, inline(sector, 1, 10 * at as u64, 0));
        map.check().unwrap();
    }
    let mut in_order = sectors.to_vec();
    in_order.sort_unstable();
    let found: Vec<u64> = all(&map).iter().map(|extent| extent.sector).collect();
    assert_eq!(found, in_order);
    assert!(map.nodes() > 3);
    clear(&mut map, 0..u64::MAX);
    assert_eq!(
        (map.nodes(), map.entries(), map.mapped_sectors()),
        (0, 0, 0)
    );
}

#[test]
fn emptying_a_full_space_releases_its_nodes_and_lowers_the_tree() {
    let mut map = filled(SMALL, 2000);
    let full = map.nodes();
    assert!(map.root.unwrap().level >= 3 && full > 250);
    let rng = Rng::new(1);
    let mut order: Vec<u64> = (0..2000).collect();
    rng.shuffle(&mut order);
    for (done, at) in order[..1980].iter().enumerate() {
        assert_eq!(
            clear(&mut map, at * 16..at * 16 + 8),
            [replaced(at * 16, 8, at * 24)]
        );
        if done % 50 == 0 {
            map.check().unwrap();
        }
    }
    map.check().unwrap();
    assert!(map.entries() == 20 && map.nodes() < 20, "{}", map.nodes());
    for at in &order[1980..] {
        clear(&mut map, at * 16..at * 16 + 8);
    }
    assert!(map.root.is_none() && map.nodes() == 0);
}

/// A node may come to cover sectors before its first key, when the node before it is dropped.
#[test]
fn entries_move_to_a_neighbour_that_covers_sectors_before_its_first_key() {
    let mut map = filled(SMALL, 24);
    clear(&mut map, 0..128);
    clear(&mut map, 160..256);
    for sector in 1..6 {
        set(&mut map, inline(sector * 10, 1, 9000 + sector * 10, 0));
    }
    assert_eq!(map.nodes(), 3);
    clear(&mut map, 256..368);
    map.check().unwrap();
    assert_eq!((map.nodes(), map.entries()), (3, 8));
    let found: Vec<u64> = all(&map).iter().map(|extent| extent.sector).collect();
    assert_eq!(found, [10, 20, 30, 40, 50, 128, 144, 368]);
}

#[test]
fn a_huge_trim_loads_only_two_leaves_and_reports_the_others_when_they_are_reaped() {
    let (mut map, mut medium) = (filled(SMALL, 5000), Vec::new());
    let root = checkpoint(&mut map, &mut medium, 1 << 20).root;
    let mut map = ExtentMap::open(VOLUME, SMALL, root, &[]);
    let height = usize::from(root.unwrap().level) + 1;
    let mut pins = map.pins();
    let (mut loads, trimmed) = (0, 100..5000 * 16 - 100);
    while let Err(need) = map.prepare_ends(trimmed.clone(), &mut pins) {
        let (_, bytes) = medium
            .iter()
            .find(|(place, _)| *place == need.place)
            .unwrap();
        map.load(&need, bytes).unwrap();
        loads += 1;
    }
    assert_eq!(loads, 2 * height - 1);
    let mut changes = MapChanges::default();
    map.detach(trimmed, &mut changes).unwrap();
    assert!(
        changes.gone.len() <= 16 && map.detached() < 2 * height,
        "{}",
        map.detached()
    );
    assert_eq!(map.next_mapped(104..5000 * 16 - 100), Ok(None));
    map.check().unwrap();
    // The subtree is also detached in the checkpoint, and the tree is small.
    let trimmed = checkpoint(&mut map, &mut medium, 1 << 30);
    assert_eq!(trimmed.detached.len(), map.detached());
    let mut map = ExtentMap::open(VOLUME, SMALL, trimmed.root, &trimmed.detached);
    while loaded(&mut map, &medium, |map| map.reap(&mut changes)) {
        map.check().unwrap();
    }
    let mut dead: Vec<u64> = changes
        .gone
        .iter()
        .map(|old| old.extent.sector / 16)
        .collect();
    dead.sort_unstable();
    assert_eq!(dead, (6..4994).collect::<Vec<u64>>());
    let after = checkpoint(&mut map, &mut medium, 1 << 31);
    assert_eq!((after.detached.len(), map.entries()), (0, 13));
    assert!(after.root.unwrap().nodes < 5, "{after:?}");
}

#[test]
fn a_range_detached_between_two_unchanged_leaves_is_absent_after_a_checkpoint() {
    let (mut map, mut medium) = (filled(SMALL, 40), Vec::new());
    clear(&mut map, 512..520);
    let before = checkpoint(&mut map, &mut medium, 1 << 20).root.unwrap();
    let mut changes = MapChanges::default();
    map.detach(120..514, &mut changes).unwrap();
    assert_eq!((changes.gone.len(), map.detached(), map.nodes()), (0, 1, 7));
    assert_eq!(map.dirty_bytes(), 2 * 4096);
    let after = checkpoint(&mut map, &mut medium, 1 << 30);
    assert_eq!(after.superseded, [before.place]);
    let mut map = ExtentMap::open(VOLUME, SMALL, after.root, &after.detached);
    let run = loaded(&mut map, &medium, |map| map.next_mapped(120..u64::MAX));
    assert_eq!(run, Some(528..536));
}

#[test]
fn counts_survive_a_checkpoint_of_a_fully_detached_space() {
    let (mut map, mut medium) = (filled(SMALL, 100), Vec::new());
    map.detach(0..u64::MAX, &mut MapChanges::default()).unwrap();
    assert_eq!(map.next_mapped(0..u64::MAX), Ok(None));
    let completed = checkpoint(&mut map, &mut medium, 1 << 20);
    let mut map = ExtentMap::open(VOLUME, SMALL, completed.root, &completed.detached);
    assert_eq!(map.entries(), 100 - 8 - 4);
    while loaded(&mut map, &medium, |map| {
        map.reap(&mut MapChanges::default())
    }) {}
    assert_eq!(
        (map.entries(), map.mapped_sectors(), map.nodes()),
        (0, 0, 1)
    );
    loaded(&mut map, &medium, |map| map.get(0..1, &mut Vec::new()));
    let mut gone = checkpoint(&mut map, &mut medium, 1 << 30);
    assert_eq!(
        (gone.root, gone.detached, map.nodes()),
        (None, Vec::new(), 0)
    );
    gone.superseded.sort_unstable();
    let written: Vec<LogPlace> = medium.iter().map(|(place, _)| *place).collect();
    assert_eq!(gone.superseded, written);
}

#[test]
fn a_space_filled_sequentially_has_full_leaves() {
    let map = filled(SMALL, 2000);
    assert!(
        map.nodes() <= 2000 / 8 + 2000 / 8 / 5 * 2,
        "{}",
        map.nodes()
    );
}

#[test]
fn moved_data_is_mapped_only_where_the_map_still_points_at_its_source() {
    let mut map = ExtentMap::new(VOLUME, NodeCapacity::default());
    set(&mut map, extent(0, 100, 1000, ExtentCheck::Segment));
    set(&mut map, inline(8, 8, 5000, 1));
    clear(&mut map, 40..50);
    let mut changes = MapChanges::default();
    let to = extent(0, 60, 7000, ExtentCheck::Segment);
    map.replace_if(LogPlace(1000), to, &mut changes).unwrap();
    let moved = replaced_in(0..60, &changes);
    let expected = [
        replaced(0, 8, 1000),
        replaced(16, 24, 1016),
        replaced(50, 10, 1050),
    ];
    assert_eq!(moved, expected);
    let expected = [
        extent(0, 8, 7000, ExtentCheck::Segment),
        inline(8, 8, 5000, 1),
        extent(16, 24, 7016, ExtentCheck::Segment),
        extent(50, 10, 7050, ExtentCheck::Segment),
        extent(60, 40, 1060, ExtentCheck::Segment),
    ];
    assert_eq!(all(&map), expected);
    // A piece that is moved as a whole keeps its checksum in the map.
    map.replace_if(LogPlace(5000), inline(8, 8, 9000, 1), &mut changes)
        .unwrap();
    assert_eq!(all(&map)[1], inline(8, 8, 9000, 1));
}

#[test]
fn an_operation_without_a_needed_node_names_the_node_and_changes_nothing() {
    let (mut map, mut medium) = (filled(SMALL, 300), Vec::new());
    let completed = checkpoint(&mut map, &mut medium, 1 << 20);
    let before = all(&map);
    let mut map = ExtentMap::open(VOLUME, SMALL, completed.root, &[]);
    let mut changes = MapChanges::default();
    let need = map.clear(0..u64::MAX, &mut changes).unwrap_err();
    let root = completed.root.unwrap();
    assert_eq!(
        (need.place, need.level, need.crc),
        (root.place, root.level, root.crc)
    );
    assert_eq!(need.range, 0..u64::MAX);
    let mut rounds = 0;
    while let Err(need) = map.clear(0..u64::MAX, &mut changes) {
        assert!(changes.gone.is_empty() && map.dirty_bytes() == 0 && map.entries() == 300);
        let (_, bytes) = medium
            .iter()
            .find(|(place, _)| *place == need.place)
            .unwrap();
        map.load(&need, bytes).unwrap();
        rounds += 1;
    }
    assert_eq!(
        (rounds, changes.gone.len(), before.len()),
        (root.nodes, 300, 300)
    );
}

#[test]
fn an_older_version_of_a_node_in_its_place_is_an_error() {
    let (mut map, mut medium) = (filled(SMALL, 4), Vec::new());
    checkpoint(&mut map, &mut medium, 1000);
    set(&mut map, inline(0, 8, 999, 9));
    let completed = checkpoint(&mut map, &mut medium, 2000);
    let [(_, old), (_, new)] = medium[..] else {
        panic!("two nodes");
    };
    let mut map = ExtentMap::open(VOLUME, SMALL, completed.root, &[]);
    let need = map.get(0..9, &mut Vec::new()).unwrap_err();
    assert_eq!(map.load(&need, &old), Err(NodeLoadError::Stale));
    let mut damaged = new;
    damaged[100] ^= 1;
    assert!(matches!(
        map.load(&need, &damaged),
        Err(NodeLoadError::Format(_))
    ));
    assert!(matches!(
        map.load(&need, &[]),
        Err(NodeLoadError::Format(_))
    ));
    assert_eq!(map.load(&need, &new), Ok(()));
    assert_eq!(map.get(0..9, &mut Vec::new()), Ok(()));
}

#[test]
fn a_misplaced_node_is_an_error_even_if_its_parent_names_it() {
    let node = |level, base, volume| {
        let content = match level {
            0 => crate::format::NodeContent::Leaf(vec![inline(base, 8, 0, 0)]),
            _ => crate::format::NodeContent::Inner(vec![crate::format::ChildRef {
                first: base,
                place: LogPlace(0),
                crc: 0,
            }]),
        };
        let node = StoredNode {
            volume,
            level,
            base,
            content,
        };
        node.encode()
    };
    let leaf = node(0, 5, VOLUME);
    let crc = StoredNode::crc(&leaf).unwrap();
    for (level, volume, expected) in [
        (0, VOLUME, Ok(())),
        (1, VOLUME, Err(NodeLoadError::Misplaced)),
        (0, VolumeId([8; 16]), Err(NodeLoadError::Misplaced)),
    ] {
        let root = RootRef {
            place: LogPlace(8),
            level,
            crc,
            sectors: 8,
            entries: 1,
            nodes: 2,
        };
        let mut map = ExtentMap::open(volume, SMALL, Some(root), &[]);
        let need = map.get(0..9, &mut Vec::new()).unwrap_err();
        assert_eq!(map.load(&need, &leaf), expected);
    }
    // The child's base is behind its first sector in the parent, then before it.
    for (first, base, expected) in [(0, 5, Ok(())), (6, 5, Err(NodeLoadError::Misplaced))] {
        let children = [(0, 0, 0), (first, 8, crc), (20, 16, 0)];
        let children = children.into_iter().skip(usize::from(first == 0));
        let children: Vec<crate::format::ChildRef> = children
            .map(|(first, place, crc)| crate::format::ChildRef {
                first,
                place: LogPlace(place),
                crc,
            })
            .collect();
        let parent = StoredNode {
            volume: VOLUME,
            level: 1,
            base: 0,
            content: crate::format::NodeContent::Inner(children),
        };
        let parent = parent.encode();
        let root = RootRef {
            place: LogPlace(80),
            level: 1,
            crc: StoredNode::crc(&parent).unwrap(),
            sectors: 8,
            entries: 1,
            nodes: 4,
        };
        let mut map = ExtentMap::open(VOLUME, SMALL, Some(root), &[]);
        let need = map.get(7..9, &mut Vec::new()).unwrap_err();
        map.load(&need, &parent).unwrap();
        let need = map.get(7..9, &mut Vec::new()).unwrap_err();
        assert_eq!((need.place.0, need.range.clone()), (8, first..20));
        assert_eq!(map.load(&need, &leaf), expected, "{base}");
    }
}

#[test]
fn a_root_with_wrong_counts_does_not_break_the_map() {
    let (mut map, mut medium) = (filled(SMALL, 100), Vec::new());
    let mut root = checkpoint(&mut map, &mut medium, 1 << 20).root.unwrap();
    (root.sectors, root.entries, root.nodes) = (1, 1, u64::from(root.level) + 1);
    let mut map = ExtentMap::open(VOLUME, SMALL, Some(root), &[]);
    loaded(&mut map, &medium, |map| {
        map.get(0..u64::MAX, &mut Vec::new())
    });
    assert!(map.check().is_err());
    clear(&mut map, 0..u64::MAX);
    set(&mut map, inline(0, 8, 0, 0));
    assert_eq!(all(&map).len(), 1);
}

#[test]
fn changes_after_the_freeze_belong_to_the_next_checkpoint() {
    let mut medium = Vec::new();
    let mut map = filled(SMALL, 100);
    let first = checkpoint(&mut map, &mut medium, 10_000);
    assert_eq!(first.superseded, []);
    set(&mut map, inline(0, 8, 5555, 1));
    map.freeze();
    let held = map.unwritten();
    assert_eq!(held, usize::from(map.root.unwrap().level) + 1);
    // Changes a node that the snapshot holds, and unmaps all of its leaf.
    set(&mut map, inline(16, 8, 6666, 1));
    clear(&mut map, 0..1000);
    assert_eq!(write_all(&mut map, &mut medium, 20_000), held);
    let second = map.complete();
    assert_eq!(second.superseded.len(), held);
    let mut then = ExtentMap::open(VOLUME, SMALL, second.root, &[]);
    let found = loaded(&mut then, &medium, |map| {
        let mut found = Vec::new();
        map.get(0..24, &mut found).map(|()| found)
    });
    assert_eq!(found, [inline(0, 8, 5555, 1), inline(16, 8, 24, 1)]);
    let third = checkpoint(&mut map, &mut medium, 30_000);
    assert!(third.superseded.contains(&LogPlace(20_000)));
    assert_eq!(third.root.unwrap().entries, 37);
}

#[test]
fn an_abandoned_checkpoint_is_written_by_the_next_checkpoint() {
    let mut medium = Vec::new();
    let mut map = filled(SMALL, 100);
    let first = checkpoint(&mut map, &mut medium, 10_000);
    set(&mut map, inline(0, 8, 5555, 1));
    let dirty = map.dirty_bytes();
    map.freeze();
    assert_eq!(map.dirty_bytes(), 0);
    map.next_to_write().unwrap();
    map.written(LogPlace(90_000));
    clear(&mut map, 0..600);
    map.abandon();
    assert!(map.dirty_bytes() >= dirty);
    map.check().unwrap();
    let second = checkpoint(&mut map, &mut medium, 20_000);
    let leaves = 600 / 16 / 8;
    assert!(second.superseded.len() >= leaves);
    assert!(!second.superseded.contains(&LogPlace(90_000)));
    let before = first.root.unwrap().nodes as usize;
    let written = medium.iter().filter(|(place, _)| place.0 >= 20_000).count();
    let after = second.root.unwrap().nodes as usize;
    assert_eq!(before - second.superseded.len() + written, after);
}

#[test]
fn shrinking_evicts_clean_nodes_and_keeps_changed_and_pinned_nodes() {
    let (mut map, mut medium) = (filled(SMALL, 1000), Vec::new());
    map.shrink(0);
    assert_eq!(all(&map).len(), 1000);
    checkpoint(&mut map, &mut medium, 1 << 20);
    let full = map.memory();
    map.shrink(full * 2 / 3);
    assert!(map.memory() <= full * 2 / 3 && map.memory() > full / 2);
    let mut pins = map.pins();
    loaded(&mut map, &medium, |map| map.prepare(480..500, &mut pins));
    loaded(&mut map, &medium, |map| map.get(800..808, &mut Vec::new()));
    set(&mut map, inline(800, 8, 1, 1));
    map.shrink(0);
    assert_eq!(map.get(480..500, &mut Vec::new()), Ok(()));
    assert_eq!(map.get(800..808, &mut Vec::new()), Ok(()));
    assert!(map.get(8000..8008, &mut Vec::new()).is_err());
    drop(pins);
    map.shrink(0);
    assert!(map.get(480..500, &mut Vec::new()).is_err());
    map.check().unwrap();
}

#[test]
fn an_empty_pinned_leaf_stays_until_the_next_checkpoint() {
    let (mut map, mut medium) = (filled(SMALL, 32), Vec::new());
    let root = checkpoint(&mut map, &mut medium, 1 << 20).root;
    let mut map = ExtentMap::open(VOLUME, SMALL, root, &[]);
    let mut pins = map.pins();
    loaded(&mut map, &medium, |map| map.prepare(128..256, &mut pins));
    assert_eq!((clear(&mut map, 128..256).len(), map.nodes()), (8, 5));
    set(&mut map, inline(136, 8, 7, 7));
    clear(&mut map, 128..256);
    let pinned = checkpoint(&mut map, &mut medium, 1 << 30);
    assert_eq!(pinned.root.unwrap().nodes, 5);
    map.check().unwrap();
    drop(pins);
    let after = checkpoint(&mut map, &mut medium, 1 << 31);
    assert_eq!(after.root.unwrap().nodes, 4);
    assert_eq!(after.superseded.len(), 2);
}

#[test]
fn a_node_marked_for_moving_is_written_elsewhere_by_the_next_checkpoint() {
    let (mut map, mut medium) = (filled(SMALL, 100), Vec::new());
    checkpoint(&mut map, &mut medium, 10_000);
    let (place, bytes) = medium[3];
    let node = StoredNode::decode(&bytes).unwrap();
    assert_eq!(map.redirty(node.level, node.base, LogPlace(1)), Ok(false));
    assert_eq!(map.redirty(23, node.base, place), Ok(false));
    assert_eq!(map.dirty_bytes(), 0);
    assert_eq!(map.redirty(node.level, node.base, place), Ok(true));
    let moved = checkpoint(&mut map, &mut medium, 20_000);
    assert!(moved.superseded.contains(&place));
    assert_eq!(map.redirty(node.level, node.base, place), Ok(false));
}

/// The limits: 17.5 bytes for each entry, and a tenth of a MiB for each GiB of sequential data.
#[test]
fn memory_stays_within_its_limits_for_random_pages_and_for_sequential_data() {
    let pages: u64 = 1 << 18;
    let mut map = ExtentMap::new(VOLUME, NodeCapacity::default());
    let mut changes = MapChanges::default();
    for at in 0..pages * 8 / 256 {
        map.set(
            extent(at * 256, 256, at * 256, ExtentCheck::Segment),
            &mut changes,
        )
        .unwrap();
    }
    assert!(map.memory() < (1 << 20) / 10, "{}", map.memory());
    let rng = Rng::new(3);
    let mut place = pages * 8;
    for done in 0..pages * 6 {
        let page = rng.below(pages);
        place += 9;
        changes = MapChanges::default();
        map.set(inline(page * 8, 8, place, page as u32), &mut changes)
            .unwrap();
        if done % 4096 == 0 && map.entries() > 30_000 {
            let each = map.memory() as f64 / map.entries() as f64;
            assert!(each <= 17.5, "{each} at {} entries", map.entries());
        }
    }
    assert!(map.memory() as f64 / map.entries() as f64 <= 17.5 && map.memory() < 5 << 20);
    map.check().unwrap();
}

proptest! {
    /// Any bytes loaded for a node leave the map unchanged, or with a node that passes its checks.
    #[test]
    fn hostile_bytes_of_a_node_are_rejected_or_leave_a_usable_map(
        scribbles in vec((16..200usize, any::<u8>()), 1..6), level in 0..3u8,
    ) {
        let (mut map, mut medium) = (filled(SMALL, 200), Vec::new());
        checkpoint(&mut map, &mut medium, 1 << 20);
        let is_level = |bytes: &[u8]| bytes[42] == level;
        let (place, mut bytes) = *medium.iter().find(|(_, bytes)| is_level(bytes)).unwrap();
        for (at, byte) in scribbles {
            bytes[at] = byte;
        }
        bytes[12..16].fill(0);
        let crc = crc32c::crc32c(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        let root = RootRef { place, level, crc, sectors: 1600, entries: 200, nodes: 40 };
        let mut map = ExtentMap::open(VOLUME, SMALL, Some(root), &[]);
        let need = map.get(0..1, &mut Vec::new()).unwrap_err();
        if map.load(&need, &bytes).is_ok() {
            if let Err(flaw) = map.check() {
                prop_assert_eq!(flaw.what, "counts that are wrong");
            }
            let mut changes = MapChanges::default();
            for at in 0..200 {
                let _ = map.set(inline(at * 16 + 3, 7, 0, 0), &mut changes);
                let _ = map.clear(at * 15..at * 15 + 9, &mut changes);
            }
            map.freeze();
            prop_assert!(map.unwritten() < 800);
        }
    }
}
