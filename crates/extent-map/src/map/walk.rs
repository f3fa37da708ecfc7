//! A walk over the whole map, which callers use to recount it.
//!
//! The tree is walked leaf by leaf, and its nodes may be loaded and evicted meanwhile. Nodes of detached subtrees that
//! are in memory are visited when the walk begins. The others are not loaded into the map: the walk decodes their bytes
//! itself.

use std::collections::VecDeque;
use std::ops::Range;

use super::cache::{NodeLoadError, verified};
use super::nodes::states::NodeState;
use super::nodes::{NodeBody, NodeIndex};
use super::path::{SPACE, loaded, narrow};
use super::{ExtentMap, NeededNode, TreeRoot};
use crate::extent::{LeafExtent, MapExtent, in_leaf};
use crate::format::NodeContent;
use crate::place::LogPlace;

/// A leaf of the map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeafView {
    /// The sectors that the leaf covers.
    pub range: Range<u64>,
    /// The extents in the leaf, in order.
    pub extents: Vec<MapExtent>,
}

/// A part of the map that a [`MapWalk`] visits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapVisit {
    /// A node of the tree or of a detached subtree.
    Node {
        /// The level; 0 for a leaf.
        level: u8,
        /// The place of its copy on the device, if a checkpoint has written one.
        place: Option<LogPlace>,
    },
    /// The copy of a node that is no longer in the map. It is live until the next checkpoint supersedes it.
    Dropped(LogPlace),
    /// An extent of the tree.
    Extent(LeafExtent),
    /// An extent of a detached subtree that is not reaped yet. Recovery detaches a subtree again that was reaped before
    /// a crash, so the data may be gone.
    Detached(LeafExtent),
}

/// A walk over all nodes and extents of a map. Nodes may be loaded and evicted meanwhile. After any other change of the
/// map, later visits may refer to parts that are no longer in the map.
pub struct MapWalk {
    /// Visits that were found but not returned yet.
    found: VecDeque<MapVisit>,
    /// The first sector of the next leaf of the tree; `None` at the end of the tree.
    next_leaf: Option<u64>,
    /// Nodes of detached subtrees that are not in memory and not walked yet.
    missing: Vec<NeededNode>,
}

impl ExtentMap {
    /// Returns the leaf that covers a sector, or `None` if the map has no node. The next leaf begins at the end of its
    /// range.
    ///
    /// # Errors
    /// [`NeededNode`] if a node is not in memory.
    pub fn next_leaf(&self, from: u64) -> Result<Option<LeafView>, NeededNode> {
        let path = self.find(from, 0)?;
        Ok(path.map(|path| LeafView {
            extents: self.nodes.leaf(path.leaf()).extents().collect(),
            range: path.range,
        }))
    }

    /// Returns the nodes on the path to the leaf that covers a sector, as far as they begin with this leaf and are equal
    /// to their copies on the device. A caller that visits all leaves gets each of these nodes once.
    ///
    /// # Errors
    /// [`NeededNode`] if a node is not in memory.
    pub fn stored_nodes(&self, at: u64) -> Result<Vec<NeededNode>, NeededNode> {
        let Some(path) = self.find(at, 0)? else {
            return Ok(Vec::new());
        };
        let (mut stored, mut range) = (Vec::new(), SPACE);
        for step in path.steps() {
            let node = self.nodes.get(step.id);
            let is_clean = self.nodes.state(step.id) == NodeState::Clean;
            if let Some((place, crc)) = self.nodes.copy(step.id)
                && is_clean
                && range.start == path.range.start
            {
                stored.push(NeededNode {
                    place,
                    crc,
                    level: node.level,
                    range: range.clone(),
                });
            }
            if let NodeBody::Inner(inner) = &node.body
                && node.level > 0
            {
                narrow(&mut range, inner, step.child());
            }
        }
        Ok(stored)
    }

    /// Checks that bytes from the device are the copy of a node of [`ExtentMap::stored_nodes`].
    ///
    /// # Errors
    /// If the bytes are not this node.
    pub fn verify_copy(&self, node: &NeededNode, bytes: &[u8]) -> Result<(), NodeLoadError> {
        verified(self.volume, node, bytes).map(drop)
    }

    /// Begins a walk over the map.
    ///
    /// # Panics
    /// If a snapshot is under way.
    pub fn walk(&self) -> MapWalk {
        assert!(self.writing.is_none(), "a walk during a snapshot");
        let mut walk = MapWalk {
            found: self
                .dropped
                .iter()
                .copied()
                .map(MapVisit::Dropped)
                .collect(),
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
        id: NodeIndex,
        level: u8,
        found: &mut VecDeque<MapVisit>,
        below: &mut Vec<TreeRoot>,
    ) {
        let place = self.nodes.copy(id).map(|(place, _)| place);
        found.push_back(MapVisit::Node { level, place });
        match &self.nodes.get(id).body {
            NodeBody::Leaf(leaf) => found.extend(leaf.leaf_extents().map(MapVisit::Detached)),
            NodeBody::Inner(inner) => {
                let level = level.saturating_sub(1);
                below.extend(inner.slots.iter().map(|&slot| TreeRoot { slot, level }));
            }
        }
    }

    /// Appends the leaf that begins at sector `at`, and the nodes above it that begin there, to `found`. Returns the
    /// first sector of the next leaf.
    fn visit_leaf(
        &self,
        at: u64,
        found: &mut VecDeque<MapVisit>,
    ) -> Result<Option<u64>, NeededNode> {
        let Some(path) = self.find(at, 0)? else {
            return Ok(None);
        };
        let steps = path.steps();
        for depth in (0..steps.len()).filter(|depth| self.start(&steps[..=*depth]) == at) {
            let id = steps[depth].id;
            let (level, copy) = (self.nodes.get(id).level, self.nodes.copy(id));
            let place = copy.map(|(place, _)| place);
            found.push_back(MapVisit::Node { level, place });
        }
        let extents = self.nodes.leaf(path.leaf()).leaf_extents();
        found.extend(extents.map(MapVisit::Extent));
        Ok((path.range.end < SPACE.end).then_some(path.range.end))
    }
}

impl MapWalk {
    /// Returns the next node or extent, or `None` at the end. The order is not specified.
    ///
    /// # Errors
    /// [`NeededNode`] if a node must be read and passed to [`MapWalk::load`].
    pub fn next(&mut self, map: &ExtentMap) -> Result<Option<MapVisit>, NeededNode> {
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
    pub fn load(
        &mut self,
        map: &mut ExtentMap,
        need: &NeededNode,
        bytes: &[u8],
    ) -> Result<(), NodeLoadError> {
        if !self.awaits(need) {
            return map.load(need, bytes);
        }
        let block = verified(map.volume, need, bytes)?;
        self.pass(need);
        match block.content {
            NodeContent::Leaf(extents) => {
                let extents = in_leaf(None, extents.into_iter());
                self.found.extend(extents.map(MapVisit::Detached));
            }
            NodeContent::Inner(children) => {
                self.missing.extend(children.iter().map(|child| NeededNode {
                    place: child.place,
                    crc: child.crc,
                    level: need.level.saturating_sub(1),
                    range: SPACE,
                }));
            }
        }
        Ok(())
    }

    /// Skips the subtree below a damaged node of a detached subtree. The node itself is still returned by
    /// [`MapWalk::next`]. Returns false, and does nothing, if `need` is not such a node.
    pub fn skip(&mut self, need: &NeededNode) -> bool {
        let awaits = self.awaits(need);
        if awaits {
            self.pass(need);
        }
        awaits
    }

    /// Returns true if the walk needs this node of a detached subtree.
    fn awaits(&self, need: &NeededNode) -> bool {
        self.next_leaf.is_none() && self.missing.last() == Some(need)
    }

    fn pass(&mut self, need: &NeededNode) {
        self.missing.pop();
        let (level, place) = (need.level, Some(need.place));
        self.found.push_back(MapVisit::Node { level, place });
    }
}
