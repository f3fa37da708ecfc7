//! The map: from sectors of a sparse 64-bit space to places on the device.
//!
//! The map is a copy-on-write B+-tree of extents. A changed node stays in memory until a checkpoint writes it to
//! another place, together with its parents, up to a new root. So all nodes below the last root stay on the device
//! unchanged until the next root is valid. Nodes that are equal to their copies on the device need not be in memory: an
//! operation that needs such a node returns its location ([`NeededNode`]), and has changed nothing.
//!
//! Invariants:
//! - An extent lies within the range of its leaf. Extents that continue each other in the space and on the device are
//!   joined where they meet in a leaf, but not across leaves.
//! - The parents of a node in memory are in memory. The parents of a changed node are changed.
//! - No node is empty, with one exception: a leaf that became empty while its sectors were pinned, and whose sectors
//!   would otherwise belong to a leaf that is not in memory. It is dropped at the next freeze. The tree of an empty
//!   space has no node.
//!
//! `path.rs` finds nodes, `leaf.rs` and `nodes.rs` hold them, `balance.rs` splits and joins them, `cache.rs` loads and
//! evicts them, `states.rs` defines their states with respect to checkpoints, `checkpoint.rs` and `writing.rs` write
//! them, `trim.rs` unmaps a huge range, `walk.rs` walks over all nodes, `check.rs` checks the tree.

mod balance;
mod cache;
mod check;
mod checkpoint;
mod leaf;
mod nodes;
mod path;
mod trim;
mod walk;
mod writing;

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

pub use cache::{NodeLoadError, RangePins};
pub use check::NodeFlaw;
pub use checkpoint::CompletedCheckpoint;
pub use path::NeededNode;
pub use walk::{LeafView, MapVisit, MapWalk};
pub use writing::NodeWrite;

use crate::extent::{EXTENT_SECTORS_MAX, ExtentCheck, INLINE_SECTORS_MAX, MapChanges, MapExtent};
use crate::format::{
    DetachedRef, INNER_ENTRIES_MAX, LEAF_ENTRY_BYTES, LEAF_EXTENTS_MAX, NODE_BYTES, RootRef,
    VolumeId,
};
use crate::place::LogPlace;
use cache::PinTable;
use leaf::LeafChange;
use nodes::{NodeLocation, NodeTable};
use path::{NodePath, PathStep};
use writing::ActiveSnapshot;

/// The approximate overhead of the allocator for each allocation, in bytes.
const ALLOCATION_BYTES: usize = 16;
/// Longer extents are cut to this length, a multiple of 4 KiB, so that their parts begin at page boundaries.
const CUT_SECTORS: u64 = EXTENT_SECTORS_MAX & !7;

/// The capacity of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeCapacity {
    /// Extents in a leaf, if each takes 16 bytes on the device. Neighbouring blocks with checksums of their own take
    /// less.
    pub leaf: usize,
    /// Children of an inner node.
    pub inner: usize,
}

impl Default for NodeCapacity {
    /// Returns the capacity of nodes on the device.
    fn default() -> NodeCapacity {
        NodeCapacity {
            leaf: LEAF_EXTENTS_MAX,
            inner: INNER_ENTRIES_MAX,
        }
    }
}

impl NodeCapacity {
    /// Returns the bytes that a leaf's entries may take on the device.
    fn leaf_bytes(self) -> usize {
        self.leaf * LEAF_ENTRY_BYTES
    }
}

/// The root node of the tree or of a detached subtree.
#[derive(Clone, Copy)]
struct TreeRoot {
    slot: NodeLocation,
    level: u8,
}

/// Counts of the whole map.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct MapTotals {
    sectors: u64,
    entries: u64,
    nodes: u64,
}

/// The map of a space.
pub struct ExtentMap {
    volume: VolumeId,
    shape: NodeCapacity,
    root: Option<TreeRoot>,
    /// Subtrees that are no longer mapped and wait to be reaped. The last one in the list is reaped first.
    detached: Vec<TreeRoot>,
    nodes: NodeTable,
    totals: MapTotals,
    /// The snapshot under way.
    writing: Option<Box<ActiveSnapshot>>,
    /// Copies of nodes that left the tree since the last freeze. The next checkpoint supersedes them.
    dropped: Vec<LogPlace>,
    /// False if a detached subtree was abandoned and the map was not recounted since.
    exact: bool,
    pins: Rc<RefCell<PinTable>>,
    /// First sectors of empty leaves that were kept since they were pinned.
    hollow: Vec<u64>,
    /// Clean nodes that the clock has passed since its last eviction.
    idle: usize,
}

impl ExtentMap {
    /// Returns the map of an empty space.
    pub fn new(volume: VolumeId, shape: NodeCapacity) -> ExtentMap {
        ExtentMap::open(volume, shape, None, &[])
    }

    /// Opens the map that a checkpoint wrote. Its nodes are on the device, none of them in memory yet.
    ///
    /// # Panics
    /// If the capacity of nodes is less than 4 entries, or exceeds that of nodes on the device.
    pub fn open(
        volume: VolumeId,
        shape: NodeCapacity,
        root: Option<RootRef>,
        detached: &[DetachedRef],
    ) -> ExtentMap {
        assert!((4..=LEAF_EXTENTS_MAX).contains(&shape.leaf));
        assert!((4..=INNER_ENTRIES_MAX).contains(&shape.inner));
        let totals = root.map_or_else(MapTotals::default, |root| MapTotals {
            sectors: root.sectors,
            entries: root.entries,
            nodes: root.nodes,
        });
        let on_medium = |place, crc| NodeLocation::Medium { place, crc };
        let root = root.map(|root| TreeRoot {
            slot: on_medium(root.place, root.crc),
            level: root.level,
        });
        let detached = detached.iter().map(|cut| TreeRoot {
            slot: on_medium(cut.place, cut.crc),
            level: cut.level,
        });
        ExtentMap {
            volume,
            shape,
            root,
            detached: detached.collect(),
            nodes: NodeTable::new(),
            totals,
            writing: None,
            dropped: Vec::new(),
            exact: true,
            pins: Rc::default(),
            hollow: Vec::new(),
            idle: 0,
        }
    }

    /// Returns the number of mapped sectors. The counts here and below include detached subtrees.
    pub fn mapped_sectors(&self) -> u64 {
        self.totals.sectors
    }

    /// Returns the number of extents in memory and on the device.
    pub fn entries(&self) -> u64 {
        self.totals.entries
    }

    /// Returns the number of nodes in memory and on the device.
    pub fn nodes(&self) -> u64 {
        self.totals.nodes
    }

    /// Returns false if the counts of sectors and extents, and the live sectors of segments, may be too high, since a
    /// damaged subtree was abandoned and [`ExtentMap::set_totals`] was not called afterwards. Checkpoints do not store this
    /// flag.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Replaces the counts of mapped sectors, extents and nodes. The caller must have counted the whole map, including
    /// detached subtrees.
    pub fn set_totals(&mut self, sectors: u64, entries: u64, nodes: u64) {
        self.totals = MapTotals {
            sectors,
            entries,
            nodes,
        };
        self.exact = true;
    }

    /// Returns the memory that the map uses, in bytes: nodes with their spare capacity, nodes set aside for the
    /// snapshot under way, and the lists of places and of detached subtrees.
    pub fn memory(&self) -> usize {
        let places = self.dropped.capacity() + self.writing.as_ref().map_or(0, |w| w.places());
        let roots = self.detached.capacity() * size_of::<TreeRoot>();
        self.nodes.memory() + places * size_of::<LogPlace>() + roots
    }

    /// Returns the bytes of nodes that the next checkpoint writes; during a snapshot, those changed since its freeze.
    pub fn dirty_bytes(&self) -> u64 {
        (self.nodes.counts.changed * NODE_BYTES) as u64
    }

    /// Returns the memory, in bytes, of nodes that cannot be evicted before a checkpoint is complete, and of nodes set
    /// aside for the snapshot under way.
    pub fn dirty_memory(&self) -> u64 {
        (self.nodes.counts.unclean_bytes + self.nodes.aside_bytes) as u64
    }

    /// Appends the mapped parts of `range` to `found`, in order and clipped to the range. Entries that continue each
    /// other are not joined.
    ///
    /// # Errors
    /// [`NeededNode`] if a node is not in memory. `found` is unchanged.
    pub fn get(&self, range: Range<u64>, found: &mut Vec<MapExtent>) -> Result<(), NeededNode> {
        let (before, mut at) = (found.len(), range.start);
        while at < range.end {
            let path = match self.find(at, 0) {
                Ok(Some(path)) => path,
                Ok(None) => break,
                Err(need) => {
                    found.truncate(before);
                    return Err(need);
                }
            };
            found.extend(self.nodes.leaf(path.leaf()).parts(at..range.end));
            at = path.range.end;
        }
        Ok(())
    }

    /// Returns the first run of mapped sectors in `range`, regardless of their places. The run ends at the end of its
    /// leaf, so mapped sectors may follow directly.
    ///
    /// # Errors
    /// [`NeededNode`] if a node is not in memory.
    pub fn next_mapped(&self, range: Range<u64>) -> Result<Option<Range<u64>>, NeededNode> {
        let mut at = range.start;
        while at < range.end {
            let Some(path) = self.find(at, 0)? else {
                return Ok(None);
            };
            let mut parts = self.nodes.leaf(path.leaf()).parts(at..range.end);
            if let Some(first) = parts.next() {
                let run = parts.try_fold(first.end(), |end, part| {
                    if part.sector == end {
                        Ok(part.end())
                    } else {
                        Err(end)
                    }
                });
                let (Ok(end) | Err(end)) = run;
                return Ok(Some(first.sector..end));
            }
            at = path.range.end;
        }
        Ok(None)
    }

    /// Counts the mapped sectors in the part of `range` that the first leaf covers. Returns the count and the end of
    /// this part.
    ///
    /// # Errors
    /// [`NeededNode`] if a node is not in memory.
    pub fn mapped_in_leaf(&self, range: Range<u64>) -> Result<(u64, u64), NeededNode> {
        let Some(path) = self.find(range.start, 0)? else {
            return Ok((0, range.end));
        };
        let leaf = self.nodes.leaf(path.leaf());
        let sectors = leaf.parts(range.clone()).map(|part| part.sectors).sum();
        Ok((sectors, path.range.end.min(range.end)))
    }

    /// Maps `extent`, and appends the effects to `changes`.
    ///
    /// # Errors
    /// [`NeededNode`] if a node is not in memory; nothing is changed.
    ///
    /// # Panics
    /// If the extent is empty, reaches past the last sector or the last place, or is inline and longer than
    /// [`INLINE_SECTORS_MAX`].
    pub fn set(&mut self, extent: MapExtent, changes: &mut MapChanges) -> Result<(), NeededNode> {
        demand_possible(&extent);
        if let Some(path) = self.find(extent.sector, 0)? {
            let inside = extent.end() <= path.range.end && extent.sectors <= EXTENT_SECTORS_MAX;
            if inside && self.put(&path, extent, changes) {
                return Ok(());
            }
        }
        self.in_memory(extent.sector..extent.end())?;
        self.put_all(extent, changes);
        Ok(())
    }

    /// Unmaps `range`, and appends the effects to `changes`.
    ///
    /// # Errors
    /// [`NeededNode`] if a node is not in memory; nothing is changed.
    pub fn clear(&mut self, range: Range<u64>, changes: &mut MapChanges) -> Result<(), NeededNode> {
        self.in_memory(range.clone())?;
        let mut at = range.start;
        while at < range.end {
            let Some(path) = self.present(at) else {
                break;
            };
            let end = range.end.min(path.range.end);
            let change = LeafChange::clear(self.nodes.leaf(path.leaf()), at..end);
            if change.is_nothing() || self.make(&path, &change, changes) {
                at = end;
            } else {
                self.split_for(&path, &change, at, changes);
            }
        }
        Ok(())
    }

    /// Maps those sectors of the extent `to` that are still mapped to the places from `from` on, each to its place in
    /// `to`. Other sectors stay as they are, so a caller can use this for data that it moved during concurrent writes.
    /// Appends the effects to `changes`.
    ///
    /// # Errors
    /// [`NeededNode`] if a node is not in memory; nothing is changed.
    ///
    /// # Panics
    /// As [`ExtentMap::set`].
    pub fn replace_if(
        &mut self,
        from: LogPlace,
        to: MapExtent,
        changes: &mut MapChanges,
    ) -> Result<(), NeededNode> {
        demand_possible(&to);
        let mut mapped = Vec::new();
        self.get(to.sector..to.end(), &mut mapped)?;
        let mut runs: Vec<Range<u64>> = Vec::new();
        for part in mapped {
            if part.place.0 != from.0 + (part.sector - to.sector) {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == part.sector => run.end = part.end(),
                _ => runs.push(part.sector..part.end()),
            }
        }
        for run in runs {
            let part = to.part(run).expect("it is within the extent");
            self.set(part, changes)?;
        }
        Ok(())
    }

    /// Returns `Ok` if all leaves of `range` are in memory.
    fn in_memory(&self, range: Range<u64>) -> Result<(), NeededNode> {
        let mut at = range.start;
        while at < range.end {
            let Some(path) = self.find(at, 0)? else {
                break;
            };
            at = path.range.end;
        }
        Ok(())
    }

    /// Returns the path to the leaf of a sector. The leaf must be in memory, unless the tree is empty.
    fn present(&self, sector: u64) -> Option<NodePath> {
        self.find(sector, 0).expect("it was found in memory before")
    }

    /// Maps an extent of any length whose leaves are in memory. None of these leaves becomes empty in between, so none
    /// of their sectors becomes part of a leaf that is not in memory.
    fn put_all(&mut self, extent: MapExtent, changes: &mut MapChanges) {
        let mut at = extent.sector;
        while at < extent.end() {
            let Some(path) = self.present(at) else {
                self.plant();
                continue;
            };
            let end = path.range.end.min(at.saturating_add(CUT_SECTORS));
            let part = extent.part(at..end).expect("the leaf covers its sector");
            if self.put(&path, part, changes) {
                at = part.end();
            } else {
                let change = LeafChange::set(self.nodes.leaf(path.leaf()), part);
                self.split_for(&path, &change, at, changes);
            }
        }
    }

    /// Maps an extent that lies within the leaf at the path's end. Returns false, and changes nothing, if the leaf has
    /// no space.
    fn put(&mut self, path: &NodePath, extent: MapExtent, changes: &mut MapChanges) -> bool {
        let change = LeafChange::set(self.nodes.leaf(path.leaf()), extent);
        self.make(path, &change, changes)
    }

    /// Applies a change to the leaf at the path's end. Returns false, and changes nothing, if the leaf has no space.
    fn make(&mut self, path: &NodePath, change: &LeafChange, changes: &mut MapChanges) -> bool {
        let leaf = self.nodes.leaf(path.leaf());
        let (going, coming) = change.entries();
        let encoded = leaf.encoded_with(change);
        let (has_room, shrinks) = (encoded <= self.shape.leaf_bytes(), encoded < leaf.encoded());
        let base = leaf.base_with(change);
        let Some(base) = base.filter(|_| has_room) else {
            return false;
        };
        let (gone, come) = change.note(leaf, changes);
        // A damaged root may contain wrong counts, so these sums must not overflow.
        let totals = &mut self.totals;
        totals.sectors = totals.sectors.saturating_sub(gone).saturating_add(come);
        totals.entries = totals.entries.saturating_sub(going as u64);
        totals.entries = totals.entries.saturating_add(coming as u64);
        self.mark(path);
        let apply = |leaf: &mut leaf::LeafNode| leaf.apply(change, base);
        self.nodes.edit_leaf(path.leaf(), apply);
        if shrinks {
            self.settle(path, changes);
        }
        true
    }

    /// Marks the nodes on the path as changed. Must be called before they are changed.
    fn mark(&mut self, path: &NodePath) {
        self.mark_steps(path.steps());
    }

    /// As [`ExtentMap::mark`], for steps from the root on.
    fn mark_steps(&mut self, steps: &[PathStep]) {
        for step in steps.iter().rev() {
            if !self.nodes.mark(step.id) {
                break;
            }
        }
    }
}

fn demand_possible(extent: &MapExtent) {
    let end = extent.sector.checked_add(extent.sectors);
    assert!(extent.sectors > 0 && end.is_some(), "{extent:?}");
    let room = LogPlace::END.checked_sub(extent.place.0);
    assert!(room >= Some(extent.sectors), "{extent:?}");
    let inline = matches!(extent.check, ExtentCheck::Inline(_) | ExtentCheck::Own(_));
    assert!(
        !inline || extent.sectors <= INLINE_SECTORS_MAX,
        "{extent:?}"
    );
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "blocks_tests.rs"]
mod blocks_tests;

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod checkpoint_tests;

#[cfg(test)]
#[path = "walk_tests.rs"]
mod walk_tests;

#[cfg(test)]
#[path = "map_model_tests.rs"]
mod model_tests;
