//! A walk over the whole map, which callers use to recount it.
//!
//! The tree is walked leaf by leaf, and its nodes may be loaded and evicted meanwhile. Nodes of detached subtrees that
//! are in memory are visited when the walk begins. The others are not loaded into the map: the walk decodes their bytes
//! itself.

use std::collections::VecDeque;
use std::ops::Range;

use super::cache::{LoadError, verified};
use super::nodes::{Body, NodeId};
use super::path::{SPACE, loaded};
use super::{Map, Need, Root};
use crate::extent::{Extent, LeafExtent, in_leaf};
use crate::format::Content;
use crate::place::Place;

/// A leaf of the map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeafView {
    /// The sectors that the leaf covers.
    pub range: Range<u64>,
    /// The extents in the leaf, in order.
    pub extents: Vec<Extent>,
}

/// A part of the map that a [`Walk`] visits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// A node of the tree or of a detached subtree.
    Node {
        /// The level; 0 for a leaf.
        level: u8,
        /// The place of its copy on the device, if a checkpoint has written one.
        place: Option<Place>,
    },
    /// The copy of a node that is no longer in the map. It is live until the next checkpoint supersedes it.
    Dropped(Place),
    /// An extent of the tree.
    Extent(LeafExtent),
    /// An extent of a detached subtree that is not reaped yet. Recovery detaches a subtree again that was reaped before
    /// a crash, so the data may be gone.
    Detached(LeafExtent),
}

/// A walk over all nodes and extents of a map. Nodes may be loaded and evicted meanwhile. After any other change of the
/// map, later visits may refer to parts that are no longer in the map.
pub struct Walk {
    /// Visits that were found but not returned yet.
    found: VecDeque<Visit>,
    /// The first sector of the next leaf of the tree; `None` at the end of the tree.
    next_leaf: Option<u64>,
    /// Nodes of detached subtrees that are not in memory and not walked yet.
    missing: Vec<Need>,
}

impl Map {
    /// Returns the leaf that covers a sector, or `None` if the map has no node. The next leaf begins at the end of its
    /// range.
    ///
    /// # Errors
    /// [`Need`] if a node is not in memory.
    pub fn next_leaf(&self, from: u64) -> Result<Option<LeafView>, Need> {
        let path = self.find(from, 0)?;
        Ok(path.map(|path| LeafView {
            extents: self.nodes.leaf(path.leaf()).extents().collect(),
            range: path.range,
        }))
    }

    /// Begins a walk over the map.
    ///
    /// # Panics
    /// If a snapshot is under way.
    pub fn walk(&self) -> Walk {
        assert!(self.writing.is_none(), "a walk beside a snapshot");
        let mut walk = Walk {
            found: self.dropped.iter().copied().map(Visit::Dropped).collect(),
            next_leaf: Some(0),
            missing: Vec::new(),
        };
        let mut detached = self.detached.clone();
        while let Some(root) = detached.pop() {
            match loaded(root.slot, root.level, SPACE) {
                Ok(id) => self.visit_detached(id, root.level, &mut walk.found, &mut detached),
                Err(need) => walk.missing.push(need),
            }
        }
        walk
    }

    /// Appends a node of a detached subtree to `found`, and its child nodes to `below`.
    fn visit_detached(
        &self,
        id: NodeId,
        level: u8,
        found: &mut VecDeque<Visit>,
        below: &mut Vec<Root>,
    ) {
        let place = self.nodes.copy(id).map(|(place, _)| place);
        found.push_back(Visit::Node { level, place });
        match &self.nodes.get(id).body {
            Body::Leaf(leaf) => found.extend(leaf.leaf_extents().map(Visit::Detached)),
            Body::Inner(inner) => {
                let level = level.saturating_sub(1);
                below.extend(inner.slots.iter().map(|&slot| Root { slot, level }));
            }
        }
    }

    /// Appends the leaf that begins at sector `at`, and the nodes above it that begin there, to `found`. Returns the
    /// first sector of the next leaf.
    fn visit_leaf(&self, at: u64, found: &mut VecDeque<Visit>) -> Result<Option<u64>, Need> {
        let Some(path) = self.find(at, 0)? else {
            return Ok(None);
        };
        let steps = path.steps();
        for depth in (0..steps.len()).filter(|depth| self.start(&steps[..=*depth]) == at) {
            let id = steps[depth].id;
            let (level, copy) = (self.nodes.get(id).level, self.nodes.copy(id));
            let place = copy.map(|(place, _)| place);
            found.push_back(Visit::Node { level, place });
        }
        let extents = self.nodes.leaf(path.leaf()).leaf_extents();
        found.extend(extents.map(Visit::Extent));
        Ok((path.range.end < SPACE.end).then_some(path.range.end))
    }
}

impl Walk {
    /// Returns the next node or extent, or `None` at the end. The order is not specified.
    ///
    /// # Errors
    /// [`Need`] if a node must be read and passed to [`Walk::load`].
    pub fn next(&mut self, map: &Map) -> Result<Option<Visit>, Need> {
        loop {
            if let Some(visit) = self.found.pop_front() {
                return Ok(Some(visit));
            }
            if let Some(at) = self.next_leaf {
                self.next_leaf = map.visit_leaf(at, &mut self.found)?;
            } else if let Some(need) = self.missing.last() {
                return Err(need.clone());
            } else {
                return Ok(None);
            }
        }
    }

    /// Adds a node that was read from the place in `need`.
    ///
    /// # Errors
    /// If the bytes are not the needed node.
    pub fn load(&mut self, map: &mut Map, need: &Need, bytes: &[u8]) -> Result<(), LoadError> {
        if !self.awaits(need) {
            return map.load(need, bytes);
        }
        let block = verified(map.volume, need, bytes)?;
        self.pass(need);
        match block.content {
            Content::Leaf(extents) => {
                let extents = in_leaf(None, extents.into_iter());
                self.found.extend(extents.map(Visit::Detached));
            }
            Content::Inner(children) => self.missing.extend(children.iter().map(|child| Need {
                place: child.place,
                crc: child.crc,
                level: need.level.saturating_sub(1),
                range: SPACE,
            })),
        }
        Ok(())
    }

    /// Skips the subtree below a damaged node of a detached subtree. The node itself is still returned by
    /// [`Walk::next`]. Returns false, and does nothing, if `need` is not such a node.
    pub fn skip(&mut self, need: &Need) -> bool {
        let awaits = self.awaits(need);
        if awaits {
            self.pass(need);
        }
        awaits
    }

    /// Returns true if the walk needs this node of a detached subtree.
    fn awaits(&self, need: &Need) -> bool {
        self.next_leaf.is_none() && self.missing.last() == Some(need)
    }

    fn pass(&mut self, need: &Need) {
        self.missing.pop();
        let (level, place) = (need.level, Some(need.place));
        self.found.push_back(Visit::Node { level, place });
    }
}
