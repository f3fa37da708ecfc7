//! Compares the map with a model of single sectors, on a simulated device.

use std::collections::{BTreeMap, BTreeSet};

use forebay_rng::Rng;

use super::*;
use crate::extent::LeafExtent;
use crate::format::{NodeContent, StoredNode};

/// Regions for mapped extents: small and far apart, one of them across a multiple of 2^28.
const REGIONS: [u64; 4] = [0, (1 << 28) - 200, 1 << 40, u64::MAX - 400];
const REGION_SECTORS: u64 = 400;
const VOLUME: VolumeId = VolumeId([7; 16]);

/// One sector of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ModelCell {
    place: u64,
    check: ExtentCheck,
    /// The piece with which the sector was written.
    piece: (u64, u64),
}

type MapModel = BTreeMap<u64, ModelCell>;

/// A checkpoint being written.
struct ModelCheckpoint {
    /// Nodes that may not be on the device before the checkpoint completes.
    written: BTreeMap<LogPlace, Vec<u8>>,
    /// The number of nodes that the checkpoint writes.
    nodes: usize,
    model: MapModel,
    pending: UnreportedSectors,
}

/// Unmapped sectors with their places that the map has not reported as removed yet, with multiplicity.
#[derive(Clone, Default)]
struct UnreportedSectors(BTreeMap<(u64, u64), usize>);

impl UnreportedSectors {
    fn add(&mut self, dead: Vec<(u64, u64)>) {
        for one in dead {
            *self.0.entry(one).or_default() += 1;
        }
    }

    fn told(&mut self, dead: Vec<(u64, u64)>) {
        for one in dead {
            let count = self.0.get_mut(&one).expect("what is told is dead");
            *count -= 1;
            if *count == 0 {
                self.0.remove(&one);
            }
        }
    }

    fn len(&self) -> usize {
        self.0.values().sum()
    }

    /// Records sectors that will never be reported as removed, since their node is lost.
    fn lost(&mut self, extents: &[MapExtent]) {
        self.told(sectors_of(extents));
    }
}

struct MapScenario {
    rng: Rng,
    shape: NodeCapacity,
    map: ExtentMap,
    model: MapModel,
    pending: UnreportedSectors,
    medium: BTreeMap<LogPlace, Vec<u8>>,
    next_place: u64,
    writing: Option<ModelCheckpoint>,
    /// The last checkpoint: its root, its model and the live nodes.
    root: Option<RootRef>,
    detached: Vec<DetachedRef>,
    durable: (MapModel, UnreportedSectors),
    live: BTreeSet<LogPlace>,
    /// Nodes below damaged nodes that were abandoned since the freeze of the last completed checkpoint.
    lost: BTreeSet<LogPlace>,
    /// True if nothing happens between the steps of a checkpoint.
    is_quiet: bool,
}

impl MapScenario {
    fn new(seed: u64) -> MapScenario {
        let rng = Rng::new(seed);
        let shape = NodeCapacity {
            leaf: rng.pick(&[4, 6, 9, 40]),
            inner: rng.pick(&[4, 5, 8, 30]),
        };
        MapScenario {
            map: ExtentMap::new(VOLUME, shape),
            shape,
            rng,
            model: MapModel::new(),
            pending: UnreportedSectors::default(),
            medium: BTreeMap::new(),
            next_place: 1000,
            writing: None,
            root: None,
            detached: Vec::new(),
            durable: (MapModel::new(), UnreportedSectors::default()),
            live: BTreeSet::new(),
            lost: BTreeSet::new(),
            is_quiet: false,
        }
    }

    /// Calls `act` until no node is missing, and loads each missing node. Returns the last result.
    fn with_loads<T>(&mut self, mut act: impl FnMut(&mut ExtentMap) -> Result<T, NeededNode>) -> T {
        loop {
            let before = (self.map.totals, self.map.dirty_bytes());
            match act(&mut self.map) {
                Ok(done) => return done,
                Err(need) => {
                    assert_eq!((self.map.totals, self.map.dirty_bytes()), before);
                    self.load(&need);
                }
            }
        }
    }

    fn load(&mut self, need: &NeededNode) {
        let bytes = self.medium.get(&need.place).expect("a live node");
        self.map
            .load(need, bytes)
            .expect("the node that was asked for");
    }

    fn some_range(&self, most: u64) -> Range<u64> {
        let region = self.rng.pick(&REGIONS);
        let from = self.rng.below(REGION_SECTORS);
        let sectors = self.rng.below(most).min(REGION_SECTORS - from - 1) + 1;
        region + from..region + from + sectors
    }

    fn some_extent(&mut self) -> MapExtent {
        let check = match self.rng.below(5) {
            0 => ExtentCheck::None,
            1 => ExtentCheck::Segment,
            2 => ExtentCheck::Own(self.rng.next() as u32),
            _ => ExtentCheck::Inline(self.rng.next() as u32),
        };
        let inline = matches!(check, ExtentCheck::Inline(_) | ExtentCheck::Own(_));
        let mut range = self.some_range(if inline { 8 } else { 60 });
        // Whole blocks that continue each other take less space on the device.
        if inline && self.rng.coin() && range.start < u64::MAX - 8 {
            range.end = range.start + 8;
        }
        // Sometimes the extent continues another, in the space and on the device.
        if !self.rng.one_in(3) {
            self.next_place += 100 + self.rng.below(50);
        }
        let before = self.model.get(&range.start.wrapping_sub(1));
        let place = match before.filter(|_| self.rng.coin()) {
            Some(cell) => cell.place + 1,
            None => self.next_place,
        };
        let sectors = range.end - range.start;
        self.next_place = self.next_place.max(place) + sectors;
        MapExtent {
            sector: range.start,
            sectors,
            place: LogPlace(place),
            check,
        }
    }

    /// Returns the model's sectors in `range` with their places.
    fn modelled(&self, range: &Range<u64>) -> Vec<(u64, u64)> {
        let cells = self.model.range(range.clone());
        cells.map(|(sector, cell)| (*sector, cell.place)).collect()
    }

    fn put_in_model(&mut self, extent: &MapExtent) {
        for at in 0..extent.sectors {
            let cell = ModelCell {
                place: extent.place.0 + at,
                check: extent.check,
                piece: (extent.sector, extent.sectors),
            };
            self.model.insert(extent.sector + at, cell);
        }
    }

    fn set(&mut self) {
        let extent = self.some_extent();
        let expected = self.modelled(&(extent.sector..extent.end()));
        let changes = self.with_loads(|map| {
            let mut changes = MapChanges::default();
            map.set(extent, &mut changes).map(|()| changes)
        });
        assert_eq!(dead_by(&changes, sectors_of(&[extent])), expected);
        self.put_in_model(&extent);
    }

    fn clear(&mut self) {
        let range = match self.rng.below(40) {
            0 => 0..u64::MAX,
            1..5 => self.some_range(REGION_SECTORS),
            _ => self.some_range(40),
        };
        let expected = self.modelled(&range);
        let changes = self.with_loads(|map| {
            let mut changes = MapChanges::default();
            map.clear(range.clone(), &mut changes).map(|()| changes)
        });
        assert_eq!(dead_by(&changes, Vec::new()), expected);
        self.model.retain(|sector, _| !range.contains(sector));
    }

    /// Returns a random range, which in most cases spans several regions.
    fn long_range(&self) -> Range<u64> {
        let (from, to) = (self.some_range(1), self.some_range(1));
        from.start.min(to.start)..from.end.max(to.end)
    }

    fn detach(&mut self) {
        let range = self.long_range();
        let changes = self.with_loads(|map| {
            let mut changes = MapChanges::default();
            map.detach(range.clone(), &mut changes).map(|()| changes)
        });
        self.detached_is(&range, &changes);
    }

    /// Updates the model after a range was detached; `changes` are the removals reported immediately.
    fn detached_is(&mut self, range: &Range<u64>, changes: &MapChanges) {
        self.pending.add(self.modelled(range));
        self.pending.told(dead_by(changes, Vec::new()));
        self.model.retain(|sector, _| !range.contains(sector));
    }

    fn reap(&mut self, most: u64) {
        for _ in 0..most {
            let changes = self.with_loads(|map| {
                let mut changes = MapChanges::default();
                map.reap(&mut changes).map(|more| more.then_some(changes))
            });
            let Some(changes) = changes else {
                assert!(self.pending.len() == 0 && self.map.detached() == 0);
                return;
            };
            self.pending.told(dead_by(&changes, Vec::new()));
        }
    }

    fn replace_if(&mut self) {
        let mut to = self.some_extent();
        let mapped = self.model.range(to.sector..).next();
        let Some((&sector, cell)) = mapped.filter(|(sector, _)| **sector < to.end()) else {
            return;
        };
        let Some(from) = cell.place.checked_sub(sector - to.sector) else {
            return;
        };
        if self.rng.one_in(4) {
            to.check = ExtentCheck::Segment;
        }
        let moves = |sector: u64, place: u64| place == from + (sector - to.sector);
        let mut expected = self.modelled(&(to.sector..to.end()));
        expected.retain(|(sector, place)| moves(*sector, *place));
        let changes = self.with_loads(|map| {
            let mut changes = MapChanges::default();
            map.replace_if(LogPlace(from), to, &mut changes)
                .map(|()| changes)
        });
        let moved = expected.iter();
        let moved = moved.map(|(sector, _)| (*sector, to.place.0 + (sector - to.sector)));
        assert_eq!(dead_by(&changes, moved.collect()), expected);
        for (sector, _) in expected {
            let cell = ModelCell {
                place: to.place.0 + (sector - to.sector),
                check: to.check,
                piece: (to.sector, to.sectors),
            };
            self.model.insert(sector, cell);
        }
    }

    fn look(&mut self) {
        let range = match self.rng.below(20) {
            0 => 0..u64::MAX,
            _ => self.some_range(100),
        };
        let found = self.with_loads(|map| {
            let mut found = Vec::new();
            map.get(range.clone(), &mut found).map(|()| found)
        });
        self.compare(&range, &found);
        let (mut at, mut mapped) = (range.start, 0);
        while at < range.end {
            let (sectors, end) = self.with_loads(|map| map.mapped_in_leaf(at..range.end));
            assert!(at < end);
            (at, mapped) = (end, mapped + sectors);
        }
        assert_eq!(mapped, self.modelled(&range).len() as u64);
        let run = self.with_loads(|map| map.next_mapped(range.clone()));
        let first = self.model.range(range.clone()).next().map(|(at, _)| *at);
        assert_eq!(run.clone().map(|run| run.start), first);
        if let Some(run) = run {
            assert!(
                run.end <= range.end && self.modelled(&run).len() as u64 == run.end - run.start
            );
        }
    }

    fn compare(&self, range: &Range<u64>, found: &[MapExtent]) {
        let places = found.iter().flat_map(|extent| {
            (0..extent.sectors).map(|at| (extent.sector + at, extent.place.0 + at))
        });
        assert_eq!(places.collect::<Vec<_>>(), self.modelled(range));
        for extent in found {
            let cells = self.model.range(extent.sector..extent.end());
            for (_, cell) in cells {
                match extent.check {
                    ExtentCheck::Inline(_) | ExtentCheck::Own(_) => {
                        assert_eq!(cell.check, extent.check);
                        assert_eq!(cell.piece, (extent.sector, extent.sectors));
                    }
                    ExtentCheck::Segment => {
                        assert!(matches!(
                            cell.check,
                            ExtentCheck::Segment | ExtentCheck::Inline(_)
                        ));
                    }
                    ExtentCheck::None => {
                        let whole = cell.piece == (extent.sector, extent.sectors);
                        assert!(cell.check == ExtentCheck::None || !whole);
                        assert!(matches!(
                            cell.check,
                            ExtentCheck::None | ExtentCheck::Own(_)
                        ));
                    }
                }
            }
        }
    }

    /// Prepares some ranges, makes other changes, and then changes the ranges without a missing node.
    fn batch(&mut self) {
        let mut pins = self.map.pins();
        let extents: Vec<MapExtent> = (0..3).map(|_| self.some_extent()).collect();
        let (cleared, trimmed) = (self.some_range(100), self.long_range());
        self.with_loads(|map| map.prepare_ends(trimmed.clone(), &mut pins));
        let ranges = extents.iter().map(|extent| extent.sector..extent.end());
        for range in ranges.chain([cleared.clone()]) {
            self.with_loads(|map| map.prepare(range.clone(), &mut pins));
        }
        for _ in 0..self.rng.below(12) {
            match self.rng.below(7) {
                5 => self.detach(),
                6 => self.reap(3),
                0 => self.set(),
                1 | 2 => self.clear(),
                3 => self.checkpoint(),
                _ => self.shrink(0),
            }
        }
        self.map.shrink(0);
        let mut changes = MapChanges::default();
        for extent in extents {
            if self.rng.one_in(3) {
                let mut changes = MapChanges::default();
                let ends = self.map.detach(trimmed.clone(), &mut changes);
                ends.expect("it was prepared");
                self.detached_is(&trimmed, &changes);
                self.map.shrink(0);
            }
            if self.rng.coin() {
                self.map
                    .clear(cleared.clone(), &mut changes)
                    .expect("it was prepared");
                self.model.retain(|sector, _| !cleared.contains(sector));
            }
            self.map.set(extent, &mut changes).expect("it was prepared");
            self.put_in_model(&extent);
        }
        if self.rng.coin() {
            pins.release();
        }
    }

    /// Makes the next step of a checkpoint.
    fn checkpoint(&mut self) {
        let Some(mut writing) = self.writing.take() else {
            return self.freeze();
        };
        let left = self.map.unwritten();
        if self.rng.one_in(20) {
            self.map.abandon();
            return;
        }
        if left > 0 && self.rng.coin() {
            let some = self.rng.below(left as u64) as usize;
            self.write_nodes(&mut writing, some);
            self.writing = Some(writing);
            return;
        }
        self.write_nodes(&mut writing, left);
        assert_eq!(self.map.next_to_write(), None);
        self.complete(writing);
    }

    fn freeze(&mut self) {
        let dirty = self.map.dirty_bytes();
        let is_settled = !self.model.is_empty() && self.map.hollow.is_empty();
        self.map.freeze();
        assert_eq!(self.map.dirty_bytes(), 0);
        let nodes = self.map.unwritten();
        assert!(!is_settled || dirty == (nodes * NODE_BYTES) as u64);
        self.writing = Some(ModelCheckpoint {
            written: BTreeMap::new(),
            nodes,
            model: self.model.clone(),
            pending: self.pending.clone(),
        });
    }

    /// Writes some nodes, with changes of the map in between.
    fn write_nodes(&mut self, writing: &mut ModelCheckpoint, count: usize) {
        for _ in 0..count {
            let node = self.map.next_to_write().expect("some are not written");
            if self.rng.one_in(4) {
                self.disturb();
                assert_eq!(self.map.next_to_write().as_ref(), Some(&node));
            }
            let place = LogPlace(self.next_place);
            self.next_place += 8;
            self.map.written(place);
            writing.written.insert(place, node.bytes.to_vec());
            if self.rng.one_in(4) {
                self.disturb();
            }
            self.map.check().unwrap();
        }
        assert_eq!(self.map.unwritten() + writing.written.len(), writing.nodes);
    }

    /// Evicts as many nodes as possible.
    fn shrink(&mut self, limit: usize) {
        while self.map.shrink(limit) {}
    }

    /// Makes a random change that may happen between any two steps of a checkpoint.
    fn disturb(&mut self) {
        if self.is_quiet {
            return;
        }
        match self.rng.below(12) {
            0..4 => self.set(),
            4..6 => self.clear(),
            6 => self.replace_if(),
            7 => self.look(),
            8 => self.detach(),
            9 => self.reap(3),
            10 => self.redirty(),
            _ => self.shrink(0),
        }
    }

    /// Completes a checkpoint: the live nodes must be those reachable from its root. All other nodes are removed from
    /// the device.
    fn complete(&mut self, writing: ModelCheckpoint) {
        let completed = self.map.complete();
        for place in &completed.superseded {
            assert!(self.live.remove(place), "{place:?} was not live");
            self.medium.remove(place);
        }
        self.live.extend(writing.written.keys());
        self.medium.extend(writing.written);
        for place in std::mem::take(&mut self.lost) {
            assert!(self.live.remove(&place), "{place:?} was not live");
            self.medium.remove(&place);
        }
        let reached = self.reached(completed.root, &completed.detached);
        assert_eq!(reached, self.live);
        let counted = completed.root.map_or(0, |root| root.nodes);
        assert_eq!(counted, reached.len() as u64);
        self.root = completed.root;
        self.detached = completed.detached;
        self.durable = (writing.model, writing.pending);
    }

    /// Returns the nodes that are reachable from the roots.
    fn reached(&self, root: Option<RootRef>, detached: &[DetachedRef]) -> BTreeSet<LogPlace> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<(LogPlace, u8)> =
            root.iter().map(|root| (root.place, root.level)).collect();
        next.extend(detached.iter().map(|cut| (cut.place, cut.level)));
        while let Some((place, level)) = next.pop() {
            let node = StoredNode::decode(&self.medium[&place]).expect("a node that was written");
            assert_eq!(node.level, level);
            if let NodeContent::Inner(children) = node.content {
                next.extend(children.iter().map(|child| (child.place, level - 1)));
            }
            assert!(reached.insert(place));
        }
        reached
    }

    /// Simulates a power failure: only the last checkpoint remains.
    fn crash(&mut self) {
        self.writing = None;
        self.lost.clear();
        let root = self
            .root
            .map(|root| RootRef::decode(&root.encode()).expect("a root"));
        self.map = ExtentMap::open(VOLUME, self.shape, root, &self.detached);
        (self.model, self.pending) = self.durable.clone();
        let live = &self.live;
        self.medium.retain(|place, _| live.contains(place));
        let mapped = self.model.len() + self.pending.len();
        assert_eq!(self.map.mapped_sectors(), mapped as u64);
    }

    /// Requests that some node is written elsewhere, and checks the result.
    fn redirty(&mut self) {
        let places: Vec<LogPlace> = self.live.iter().copied().collect();
        if places.is_empty() || self.map.detached() > 0 {
            return;
        }
        let place = self.rng.pick(&places);
        let node = StoredNode::decode(&self.medium[&place]).unwrap();
        let there = self.with_loads(|map| map.redirty(node.level, node.base, place));
        let elsewhere = self.with_loads(|map| map.redirty(node.level, node.base, LogPlace(1)));
        assert!(!elsewhere);
        if there && self.map.writing.is_none() {
            self.checkpoint();
            while self.writing.is_some() {
                self.checkpoint();
            }
            assert!(!self.live.contains(&place) || self.map.nodes.counts.changed > 0);
        }
    }

    /// Abandons a detached subtree with a damaged root node, and recounts the map.
    fn abandon_detached(&mut self) {
        let mut changes = MapChanges::default();
        let Err(need) = self.map.reap(&mut changes) else {
            return self.pending.told(dead_by(&changes, Vec::new()));
        };
        let damaged = DetachedRef {
            place: need.place,
            level: need.level,
            crc: need.crc,
        };
        let mut below = self.reached(None, &[damaged]);
        for place in &below {
            let node = StoredNode::decode(&self.medium[place]).expect("a node that was written");
            if let NodeContent::Leaf(extents) = node.content {
                self.pending.lost(&extents);
            }
        }
        below.remove(&need.place);
        assert!(self.map.abandon_detached(&need) && !self.map.abandon_detached(&need));
        assert!(!self.map.is_exact());
        self.map.check().unwrap();
        self.lost.extend(below);
        let (sectors, entries, nodes) = self.recount();
        self.map.set_totals(sectors, entries, nodes);
    }

    /// Walks over the whole map while no snapshot is under way. Returns its sectors, extents and nodes.
    fn recount(&mut self) -> (u64, u64, u64) {
        let (mut walk, mut visits) = (self.map.walk(), Vec::new());
        loop {
            match walk.next(&self.map) {
                Ok(Some(visit)) => visits.push(visit),
                Ok(None) => break,
                Err(need) => {
                    let bytes = self.medium.get(&need.place).expect("a live node");
                    walk.load(&mut self.map, &need, bytes).expect("that node");
                }
            }
            if self.rng.one_in(10) {
                self.map.shrink(0);
            }
        }
        let (mut mapped, mut detached) =
            (UnreportedSectors::default(), UnreportedSectors::default());
        let (mut places, mut nodes) = (BTreeSet::new(), 0);
        let (mut entries, mut sectors) = (0, 0);
        for visit in visits {
            match visit {
                MapVisit::Node { place, .. } => {
                    nodes += 1;
                    assert!(place.is_none_or(|place| places.insert(place)));
                }
                MapVisit::Dropped(place) => assert!(places.insert(place)),
                MapVisit::Extent(LeafExtent { extent, .. })
                | MapVisit::Detached(LeafExtent { extent, .. }) => {
                    (entries, sectors) = (entries + 1, sectors + extent.sectors);
                    let found = match visit {
                        MapVisit::Detached(_) => &mut detached,
                        _ => &mut mapped,
                    };
                    found.add(sectors_of(&[extent]));
                }
            }
        }
        let mut expected = UnreportedSectors::default();
        expected.add(self.modelled(&(0..u64::MAX)));
        assert_eq!(mapped.0, expected.0);
        assert_eq!(detached.0, self.pending.0);
        assert_eq!(places, &self.live - &self.lost);
        (sectors, entries, nodes)
    }

    /// Walks over all leaves.
    fn walk_leaves(&mut self) {
        let (mut at, mut found) = (0, Vec::new());
        while at < u64::MAX {
            let Some(leaf) = self.with_loads(|map| map.next_leaf(at)) else {
                break;
            };
            assert_eq!(leaf.range.start, at);
            at = leaf.range.end;
            found.extend(leaf.extents);
        }
        self.compare(&(0..u64::MAX), &found);
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..40 => self.set(),
            40..52 => self.clear(),
            52..60 => self.replace_if(),
            60..75 => self.look(),
            75..87 => self.checkpoint(),
            87..92 => {
                let limit = self.rng.below(2 * self.map.memory() as u64 + 1) as usize;
                self.shrink(limit);
            }
            92 => self.shrink(0),
            93 => {
                self.reap(self.rng.below(1000));
                self.redirty();
            }
            94 if self.rng.one_in(4) => self.crash(),
            94 if self.writing.is_none() => match self.rng.below(3) {
                0 => self.abandon_detached(),
                1 => self.walk_leaves(),
                _ => {
                    let counted = self.recount();
                    let totals = self.map.totals;
                    assert_eq!(counted, (totals.sectors, totals.entries, totals.nodes));
                }
            },
            94..98 => self.batch(),
            98 => self.detach(),
            _ => self.reap(2),
        }
        let mapped = self.model.len() + self.pending.len();
        assert_eq!(self.map.mapped_sectors(), mapped as u64);
        self.map.check().unwrap();
    }
}

/// Returns the sectors of extents, each with its place.
fn sectors_of(extents: &[MapExtent]) -> Vec<(u64, u64)> {
    let sectors = extents.iter().flat_map(|one| {
        let each = 0..one.sectors;
        each.map(move |at| (one.sector + at, one.place.0 + at))
    });
    sectors.collect()
}

/// Returns the sectors that are no longer mapped to their places after changes that mapped the sectors `mapped`.
fn dead_by(changes: &MapChanges, mapped: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut counts: BTreeMap<(u64, u64), i32> = BTreeMap::new();
    let sectors = |extents: &[LeafExtent]| {
        let extents: Vec<MapExtent> = extents.iter().map(|one| one.extent).collect();
        sectors_of(&extents)
    };
    let gone = sectors(&changes.gone).into_iter().chain(mapped);
    let there = [&changes.rest, &changes.new].map(|extents| sectors(extents));
    let gone = gone.map(|one| (one, 1));
    for (one, by) in gone.chain(there.concat().into_iter().map(|one| (one, -1))) {
        *counts.entry(one).or_default() += by;
    }
    let dead = counts.into_iter().flat_map(|(one, count)| {
        let count = usize::try_from(count).expect("what is left was there");
        std::iter::repeat_n(one, count)
    });
    dead.collect()
}

#[test]
fn a_map_equals_a_list_of_sectors_under_evictions_writes_and_losses() {
    for seed in 0..150 {
        let mut world = MapScenario::new(seed);
        for _ in 0..600 {
            world.step();
        }
        world.is_quiet = true;
        // Everything is read once more, and then removed.
        world.reap(u64::MAX);
        let found = world.with_loads(|map| {
            let mut found = Vec::new();
            map.get(0..u64::MAX, &mut found).map(|()| found)
        });
        world.compare(&(0..u64::MAX), &found);
        assert_eq!(world.map.entries(), found.len() as u64);
        world.map.check().unwrap();
        world.with_loads(|map| map.clear(0..u64::MAX, &mut MapChanges::default()));
        assert_eq!(world.map.entries(), 0);
        world.model.clear();
        // Completes the checkpoint under way, if any, and one more, and repeats if one of them fails.
        while world.root.is_some() || world.writing.is_some() {
            world.checkpoint();
        }
        assert_eq!((world.map.nodes(), world.live.len()), (0, 0));
    }
}
