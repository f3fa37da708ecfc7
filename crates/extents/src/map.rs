//! The map: from sectors of a sparse 64-bit space to places on the medium.
//!
//! A B+-tree of extents, copied on write: a node that changes stays in memory until a checkpoint writes
//! it to another place, and its parents with it, up to a new root. So what the last root reaches is there,
//! unchanged, until the next root counts. Nodes that are as they are on the medium need not be in memory:
//! an operation that lacks one says which ([`Need`]), and has changed nothing.
//!
//! Invariants:
//! - An extent lies within the range of its leaf. Extents that continue each other in the space and on the
//!   medium are one where they meet in a leaf; nodes are no place where more is joined than they have.
//! - The parents of a node in memory are in memory; those of a changed node are changed.
//! - No node is empty, but for a leaf whose sectors were pinned when it got empty and would have come to
//!   belong to one that is not in memory; it goes at the next freeze. The tree of a space in which nothing
//!   is mapped has no node.
//!
//! `path.rs` finds nodes, `leaf.rs` and `nodes.rs` hold them, `balance.rs` splits and joins them, `cache.rs`
//! loads and evicts them, `states.rs` says what a checkpoint has to do with each, `checkpoint.rs` and `writing.rs`
//! write them, `trim.rs` unmaps a huge range, `walk.rs` walks over all, `check.rs` checks the tree.

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

pub use cache::{LoadError, Pins};
pub use check::Flaw;
pub use checkpoint::Completed;
pub use path::Need;
pub use walk::{LeafView, Visit, Walk};
pub use writing::ToWrite;

use crate::extent::{Changes, Check, EXTENT_SECTORS_MAX, Extent, INLINE_SECTORS_MAX};
use crate::format::{
    DetachedRef, INNER_ENTRIES_MAX, LEAF_ENTRY_BYTES, LEAF_EXTENTS_MAX, NODE_BYTES, RootRef,
    VolumeId,
};
use crate::place::Place;
use cache::PinTable;
use leaf::Change;
use nodes::{Nodes, Slot};
use path::{Path, Step};
use writing::Writing;

/// What the allocator takes for itself of each piece of memory, about, in bytes.
const ALLOCATION_BYTES: usize = 16;
/// Where a longer extent is cut: a multiple of 4 KiB, so that its parts begin where pages do.
const CUT_SECTORS: u64 = EXTENT_SECTORS_MAX & !7;

/// The most that nodes hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Extents in a leaf, if each takes 16 bytes on the medium. Neighbouring blocks with checksums of their own take less.
    pub leaf: usize,
    /// Children of an inner node.
    pub inner: usize,
}

impl Default for Shape {
    /// As many as there is room for on the medium.
    fn default() -> Shape {
        Shape {
            leaf: LEAF_EXTENTS_MAX,
            inner: INNER_ENTRIES_MAX,
        }
    }
}

impl Shape {
    /// Bytes that a leaf's entries may take on the medium.
    fn leaf_bytes(self) -> usize {
        self.leaf * LEAF_ENTRY_BYTES
    }
}

/// The root node of the tree or of a detached subtree.
#[derive(Clone, Copy)]
struct Root {
    slot: Slot,
    level: u8,
}

/// What is counted of the whole map.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Totals {
    sectors: u64,
    entries: u64,
    nodes: u64,
}

/// The map of a space.
pub struct Map {
    volume: VolumeId,
    shape: Shape,
    root: Option<Root>,
    /// Subtrees of which nothing is mapped any more, that are to be looked at for what died. Those that
    /// came last are looked at first.
    detached: Vec<Root>,
    nodes: Nodes,
    totals: Totals,
    /// The snapshot under way.
    writing: Option<Box<Writing>>,
    /// Copies of nodes that left the tree since the last freeze, which the next checkpoint supersedes.
    dropped: Vec<Place>,
    /// False if a detached subtree was abandoned and the map was not recounted since.
    exact: bool,
    pins: Rc<RefCell<PinTable>>,
    /// Where leaves begin that are empty, and were pinned when they got so.
    hollow: Vec<u64>,
    /// Clean nodes that the clock has passed since it evicted the last.
    idle: usize,
}

impl Map {
    /// The map of a space in which nothing is mapped.
    pub fn new(volume: VolumeId, shape: Shape) -> Map {
        Map::open(volume, shape, None, &[])
    }

    /// A map whose nodes are all on the medium: the one that a checkpoint wrote.
    ///
    /// # Panics
    /// If nodes have room for fewer than 4 entries, or more than fit on the medium.
    pub fn open(
        volume: VolumeId,
        shape: Shape,
        root: Option<RootRef>,
        detached: &[DetachedRef],
    ) -> Map {
        assert!((4..=LEAF_EXTENTS_MAX).contains(&shape.leaf));
        assert!((4..=INNER_ENTRIES_MAX).contains(&shape.inner));
        let totals = root.map_or_else(Totals::default, |root| Totals {
            sectors: root.sectors,
            entries: root.entries,
            nodes: root.nodes,
        });
        let on_medium = |place, crc| Slot::Medium { place, crc };
        let root = root.map(|root| Root {
            slot: on_medium(root.place, root.crc),
            level: root.level,
        });
        let detached = detached.iter().map(|cut| Root {
            slot: on_medium(cut.place, cut.crc),
            level: cut.level,
        });
        Map {
            volume,
            shape,
            root,
            detached: detached.collect(),
            nodes: Nodes::new(),
            totals,
            writing: None,
            dropped: Vec::new(),
            exact: true,
            pins: Rc::default(),
            hollow: Vec::new(),
            idle: 0,
        }
    }

    /// Sectors that are mapped. Those that are detached count here and below.
    pub fn mapped_sectors(&self) -> u64 {
        self.totals.sectors
    }

    /// Extents, in memory and on the medium.
    pub fn entries(&self) -> u64 {
        self.totals.entries
    }

    /// Nodes, in memory and on the medium.
    pub fn nodes(&self) -> u64 {
        self.totals.nodes
    }

    /// Returns false if the counts of sectors and extents, and the live sectors of segments, may be too high: a damaged
    /// subtree was abandoned, and [`Map::set_totals`] was not called since. Checkpoints do not keep this.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Replaces the counts by those of a caller that has counted the whole map, detached subtrees included: mapped
    /// sectors, extents and nodes.
    pub fn set_totals(&mut self, sectors: u64, entries: u64, nodes: u64) {
        self.totals = Totals {
            sectors,
            entries,
            nodes,
        };
        self.exact = true;
    }

    /// Memory that the map takes, in bytes: the nodes with the room that they have, those that are set aside for the
    /// snapshot under way, and the lists of places and of detached subtrees.
    pub fn memory(&self) -> usize {
        let places = self.dropped.capacity() + self.writing.as_ref().map_or(0, |w| w.places());
        let roots = self.detached.capacity() * size_of::<Root>();
        self.nodes.memory() + places * size_of::<Place>() + roots
    }

    /// Bytes of nodes that the next checkpoint writes: those changed since the freeze, if a snapshot is under way.
    pub fn dirty_bytes(&self) -> u64 {
        (self.nodes.counts.changed * NODE_BYTES) as u64
    }

    /// Memory of nodes that cannot be evicted before a checkpoint is complete, and of those that are set aside for the snapshot
    /// under way, in bytes.
    pub fn dirty_memory(&self) -> u64 {
        (self.nodes.counts.unclean_bytes + self.nodes.aside_bytes) as u64
    }

    /// Puts what is mapped of `range` behind `found`, in order, clipped to the range. Entries that continue
    /// each other are not joined.
    ///
    /// # Errors
    /// [`Need`] if a node is not in memory; `found` is as it was.
    pub fn get(&self, range: Range<u64>, found: &mut Vec<Extent>) -> Result<(), Need> {
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

    /// The first run of mapped sectors in `range`, wherever they lie. It may go on behind the run that is
    /// returned, where another leaf begins.
    ///
    /// # Errors
    /// [`Need`] if a node is not in memory.
    pub fn next_mapped(&self, range: Range<u64>) -> Result<Option<Range<u64>>, Need> {
        let mut at = range.start;
        while at < range.end {
            let Some(path) = self.find(at, 0)? else {
                return Ok(None);
            };
            let mut parts = self.nodes.leaf(path.leaf()).parts(at..range.end);
            if let Some(first) = parts.next() {
                let run = parts.try_fold(first.end(), |end, part| match part.sector == end {
                    true => Ok(part.end()),
                    false => Err(end),
                });
                let (Ok(end) | Err(end)) = run;
                return Ok(Some(first.sector..end));
            }
            at = path.range.end;
        }
        Ok(None)
    }

    /// Mapped sectors in the part of `range` that the first leaf covers, and where that part ends.
    ///
    /// # Errors
    /// [`Need`] if a node is not in memory.
    pub fn mapped_in_leaf(&self, range: Range<u64>) -> Result<(u64, u64), Need> {
        let Some(path) = self.find(range.start, 0)? else {
            return Ok((0, range.end));
        };
        let leaf = self.nodes.leaf(path.leaf());
        let sectors = leaf.parts(range.clone()).map(|part| part.sectors).sum();
        Ok((sectors, path.range.end.min(range.end)))
    }

    /// Maps `extent`, and adds what that changes to `changes`.
    ///
    /// # Errors
    /// [`Need`] if a node is not in memory; nothing is changed.
    ///
    /// # Panics
    /// If the extent is empty, reaches past the last sector or the last place, or is inline and longer
    /// than [`INLINE_SECTORS_MAX`].
    pub fn set(&mut self, extent: Extent, changes: &mut Changes) -> Result<(), Need> {
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

    /// Unmaps `range`, and adds what that changes to `changes`.
    ///
    /// # Errors
    /// [`Need`] if a node is not in memory; nothing is changed.
    pub fn clear(&mut self, range: Range<u64>, changes: &mut Changes) -> Result<(), Need> {
        self.in_memory(range.clone())?;
        let mut at = range.start;
        while at < range.end {
            let Some(path) = self.present(at) else {
                break;
            };
            let end = range.end.min(path.range.end);
            let change = Change::clear(self.nodes.leaf(path.leaf()), at..end);
            if change.is_nothing() || self.make(&path, &change, changes) {
                at = end;
            } else {
                self.split_for(&path, &change, at, changes);
            }
        }
        Ok(())
    }

    /// Maps to `to` and on what of the extent's sectors is mapped to `from` and on, sector by sector, and
    /// leaves the rest alone: for data that was moved while others may have written. Adds what that changes to `changes`.
    ///
    /// # Errors
    /// [`Need`] if a node is not in memory; nothing is changed.
    ///
    /// # Panics
    /// As [`Map::set`].
    pub fn replace_if(
        &mut self,
        from: Place,
        to: Extent,
        changes: &mut Changes,
    ) -> Result<(), Need> {
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

    /// Whether all leaves of `range` are in memory.
    fn in_memory(&self, range: Range<u64>) -> Result<(), Need> {
        let mut at = range.start;
        while at < range.end {
            let Some(path) = self.find(at, 0)? else {
                break;
            };
            at = path.range.end;
        }
        Ok(())
    }

    /// The way to the leaf of a sector, which is in memory if there is one.
    fn present(&self, sector: u64) -> Option<Path> {
        self.find(sector, 0).expect("it was found in memory before")
    }

    /// Maps an extent of any length whose leaves are in memory. None of these gets empty in between, so
    /// that none of their sectors comes to belong to a leaf that is not in memory.
    fn put_all(&mut self, extent: Extent, changes: &mut Changes) {
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
                let change = Change::set(self.nodes.leaf(path.leaf()), part);
                self.split_for(&path, &change, at, changes);
            }
        }
    }

    /// Maps an extent that lies within the leaf at the path's end. Says no, and does nothing, if the leaf
    /// has no room.
    fn put(&mut self, path: &Path, extent: Extent, changes: &mut Changes) -> bool {
        let change = Change::set(self.nodes.leaf(path.leaf()), extent);
        self.make(path, &change, changes)
    }

    /// Makes a change in the leaf at the path's end. Says no, and does nothing, if the leaf has no room.
    fn make(&mut self, path: &Path, change: &Change, changes: &mut Changes) -> bool {
        let leaf = self.nodes.leaf(path.leaf());
        let (going, coming) = change.entries();
        let encoded = leaf.encoded_with(change);
        let (has_room, shrinks) = (encoded <= self.shape.leaf_bytes(), encoded < leaf.encoded());
        let base = leaf.base_with(change);
        let Some(base) = base.filter(|_| has_room) else {
            return false;
        };
        let (gone, come) = change.note(leaf, changes);
        // A root may have lied about them, so no sum of theirs is taken for granted.
        let totals = &mut self.totals;
        totals.sectors = totals.sectors.saturating_sub(gone).saturating_add(come);
        totals.entries = totals.entries.saturating_sub(going as u64);
        totals.entries = totals.entries.saturating_add(coming as u64);
        self.mark(path);
        let apply = |leaf: &mut leaf::Leaf| leaf.apply(change, base);
        self.nodes.edit_leaf(path.leaf(), apply);
        if shrinks {
            self.settle(path, changes);
        }
        true
    }

    /// Marks the nodes on the path as changed, before they are.
    fn mark(&mut self, path: &Path) {
        self.mark_steps(path.steps());
    }

    /// As [`Map::mark`], from the root on.
    fn mark_steps(&mut self, steps: &[Step]) {
        for step in steps.iter().rev() {
            if !self.nodes.mark(step.id) {
                break;
            }
        }
    }
}

fn demand_possible(extent: &Extent) {
    let end = extent.sector.checked_add(extent.sectors);
    assert!(extent.sectors > 0 && end.is_some(), "{extent:?}");
    let room = Place::END.checked_sub(extent.place.0);
    assert!(room >= Some(extent.sectors), "{extent:?}");
    let inline = matches!(extent.check, Check::Inline(_) | Check::Own(_));
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
