//! Walks over a map, and detached subtrees that are damaged.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::extent::ExtentCheck;
use crate::extent::LeafExtent;

const VOLUME: VolumeId = VolumeId([7; 16]);
const SHAPE: NodeCapacity = NodeCapacity { leaf: 8, inner: 6 };

/// A map and the nodes that its checkpoints have written.
struct StoredMap {
    map: ExtentMap,
    medium: BTreeMap<LogPlace, Vec<u8>>,
    next: u64,
}

impl StoredMap {
    /// Returns a volume with `extents` extents of 8 sectors each, which do not continue each other.
    fn new(extents: u64) -> StoredMap {
        let mut map = ExtentMap::new(VOLUME, SHAPE);
        for at in 0..extents {
            let extent = MapExtent {
                sector: at * 16,
                sectors: 8,
                place: LogPlace(at * 24),
                check: ExtentCheck::Inline(7),
            };
            map.set(extent, &mut MapChanges::default()).unwrap();
        }
        let (medium, next) = (BTreeMap::new(), 1 << 20);
        StoredMap { map, medium, next }
    }

    fn checkpoint(&mut self) -> CompletedCheckpoint {
        self.map.freeze();
        while let Some(node) = self.map.next_to_write() {
            self.medium.insert(LogPlace(self.next), node.bytes.to_vec());
            self.map.written(LogPlace(self.next));
            self.next += 8;
        }
        self.map.complete()
    }

    /// Opens the map of a checkpoint.
    fn open(&mut self, completed: &CompletedCheckpoint) {
        self.map = ExtentMap::open(VOLUME, SHAPE, completed.root, &completed.detached);
    }

    /// Calls `act` and loads the nodes that it needs, until it succeeds or needs a lost node.
    fn with_loads<T>(
        &mut self,
        mut act: impl FnMut(&mut ExtentMap) -> Result<T, NeededNode>,
    ) -> Result<T, NeededNode> {
        loop {
            match act(&mut self.map) {
                Ok(done) => return Ok(done),
                Err(need) => match self.medium.get(&need.place) {
                    Some(bytes) => self.map.load(&need, bytes).unwrap(),
                    None => return Err(need),
                },
            }
        }
    }

    /// Returns all visits of a walk, which skips lost nodes.
    fn walk(&mut self) -> Vec<MapVisit> {
        let (mut walk, mut visits) = (self.map.walk(), Vec::new());
        loop {
            match walk.next(&self.map) {
                Ok(Some(visit)) => visits.push(visit),
                Ok(None) => return visits,
                Err(need) => match self.medium.get(&need.place) {
                    Some(bytes) => walk.load(&mut self.map, &need, bytes).unwrap(),
                    None => assert!(walk.skip(&need)),
                },
            }
        }
    }
}

/// Counts sectors, extents and nodes, and collects the places of nodes.
fn counted(visits: &[MapVisit]) -> ((u64, u64, u64), BTreeSet<LogPlace>) {
    let (mut counts, mut places) = ((0, 0, 0), BTreeSet::new());
    for visit in visits {
        match visit {
            MapVisit::Extent(LeafExtent { extent, .. })
            | MapVisit::Detached(LeafExtent { extent, .. }) => {
                counts = (counts.0 + extent.sectors, counts.1 + 1, counts.2);
            }
            MapVisit::Node { place, .. } => {
                counts.2 += 1;
                places.extend(*place);
            }
            MapVisit::Dropped(place) => assert!(places.insert(*place)),
        }
    }
    (counts, places)
}

fn totals(map: &ExtentMap) -> (u64, u64, u64) {
    (map.mapped_sectors(), map.entries(), map.nodes())
}

#[test]
fn a_walk_visits_every_node_and_extent_of_the_tree_and_of_detached_subtrees() {
    let mut volume = StoredMap::new(400);
    let first = volume.checkpoint();
    volume.open(&first);
    let (counts, places) = counted(&volume.walk());
    assert_eq!(counts, totals(&volume.map));
    assert!(places.iter().eq(volume.medium.keys()));
    // A range is detached, and nodes are changed and dropped. All copies of the checkpoint are still live.
    let cut = |map: &mut ExtentMap| map.detach(500..4000, &mut MapChanges::default());
    volume.with_loads(cut).unwrap();
    let clear = |map: &mut ExtentMap| map.clear(4400..4800, &mut MapChanges::default());
    volume.with_loads(clear).unwrap();
    let (counts, places) = counted(&volume.walk());
    assert_eq!(counts, totals(&volume.map));
    assert!(places.iter().eq(volume.medium.keys()));
    // After the next checkpoint, the superseded copies are no longer live.
    let second = volume.checkpoint();
    assert!(!second.detached.is_empty() && !second.superseded.is_empty());
    volume.open(&second);
    let (counts, places) = counted(&volume.walk());
    assert_eq!(counts, totals(&volume.map));
    for place in second.superseded {
        volume.medium.remove(&place);
    }
    assert!(places.iter().eq(volume.medium.keys()));
}

#[test]
fn consecutive_leaves_cover_the_whole_space() {
    let mut volume = StoredMap::new(100);
    let completed = volume.checkpoint();
    volume.open(&completed);
    let (mut at, mut sectors) = (0, Vec::new());
    while at < u64::MAX {
        let leaf = volume.with_loads(|map| map.next_leaf(at)).unwrap().unwrap();
        assert_eq!(leaf.range.start, at);
        at = leaf.range.end;
        sectors.extend(leaf.extents.iter().map(|extent| extent.sector));
    }
    assert!(sectors.into_iter().eq((0..100).map(|at| at * 16)));
    assert_eq!(ExtentMap::new(VOLUME, SHAPE).next_leaf(5), Ok(None));
}

#[test]
fn a_detached_subtree_with_a_damaged_root_is_dropped_and_the_map_is_recounted() {
    let mut volume = StoredMap::new(400);
    let first = volume.checkpoint();
    volume.open(&first);
    let cut = |map: &mut ExtentMap| map.detach(500..4000, &mut MapChanges::default());
    volume.with_loads(cut).unwrap();
    let second = volume.checkpoint();
    volume.open(&second);
    let lost = *second.detached.iter().find(|cut| cut.level > 0).unwrap();
    volume.medium.remove(&lost.place);
    let nodes = volume.map.nodes();
    let need = loop {
        match volume.with_loads(|map| map.reap(&mut MapChanges::default())) {
            Ok(more) => assert!(more),
            Err(need) => break need,
        }
    };
    assert_eq!(need.place, lost.place);
    let other = NeededNode {
        level: need.level + 1,
        ..need.clone()
    };
    assert!(!volume.map.abandon_detached(&other) && volume.map.is_exact());
    let reaped = nodes - volume.map.nodes();
    assert!(volume.map.abandon_detached(&need) && !volume.map.is_exact());
    assert!(!volume.map.abandon_detached(&need));
    assert_eq!(volume.map.nodes(), nodes - reaped - 1);
    while volume
        .with_loads(|map| map.reap(&mut MapChanges::default()))
        .unwrap()
    {}
    let (counts, places) = counted(&volume.walk());
    let (sectors, entries, nodes) = counts;
    assert!(entries < volume.map.entries() && places.contains(&lost.place));
    volume.map.set_totals(sectors, entries, nodes);
    assert!(volume.map.is_exact());
    volume
        .with_loads(|map| map.get(0..u64::MAX, &mut Vec::new()))
        .unwrap();
    volume.map.check().unwrap();
    let third = volume.checkpoint();
    assert!(third.superseded.contains(&lost.place) && third.detached.is_empty());
    assert_eq!(third.root.map(|root| root.entries), Some(entries));
}

#[test]
fn a_walk_skips_nodes_below_a_damaged_node_of_a_detached_subtree() {
    let mut volume = StoredMap::new(400);
    let first = volume.checkpoint();
    volume.open(&first);
    let cut = |map: &mut ExtentMap| map.detach(500..4000, &mut MapChanges::default());
    volume.with_loads(cut).unwrap();
    let second = volume.checkpoint();
    volume.open(&second);
    let lost = *second.detached.iter().find(|cut| cut.level == 1).unwrap();
    let bytes = volume.medium.remove(&lost.place).unwrap();
    let ((_, entries, nodes), places) = counted(&volume.walk());
    let children = u64::from(u16::from_le_bytes([bytes[40], bytes[41]]));
    assert_eq!(nodes, volume.map.nodes() - children);
    assert!(entries < volume.map.entries() && places.contains(&lost.place));
    // A node other than the needed one is neither skipped nor loaded.
    volume.open(&second);
    let mut walk = volume.map.walk();
    let need = walk.next(&volume.map).map(|_| ()).unwrap_err();
    assert!(!walk.skip(&need));
    assert!(matches!(
        walk.load(&mut volume.map, &need, &bytes),
        Err(NodeLoadError::Stale)
    ));
}

/// Found by the aged simulator: a walk kept ids of nodes in memory, which were freed during the walk.
#[test]
fn a_walk_continues_while_detached_subtrees_are_reaped() {
    let mut volume = StoredMap::new(400);
    volume.checkpoint();
    let cut = |map: &mut ExtentMap| map.detach(500..4000, &mut MapChanges::default());
    volume.with_loads(cut).unwrap();
    let (_, entries, nodes) = totals(&volume.map);
    let mut walk = volume.map.walk();
    let first = walk.next(&volume.map).unwrap();
    while volume
        .with_loads(|map| map.reap(&mut MapChanges::default()))
        .unwrap()
    {}
    volume.map.shrink(0);
    let mut visits: Vec<MapVisit> = first.into_iter().collect();
    loop {
        match walk.next(&volume.map) {
            Ok(Some(visit)) => visits.push(visit),
            Ok(None) => break,
            Err(need) => {
                let bytes = &volume.medium[&need.place];
                walk.load(&mut volume.map, &need, bytes).unwrap();
            }
        }
    }
    let (counts, _) = counted(&visits);
    assert_eq!((counts.1, counts.2), (entries, nodes));
}
