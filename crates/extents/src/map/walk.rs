//! A walk over the whole map, for a caller that counts it anew.
//!
//! The tree is walked leaf by leaf, so its nodes may be loaded and evicted on the way. Nodes of detached subtrees are
//! not loaded into the map: the walk takes from their bytes what it needs.

use std::collections::VecDeque;
use std::ops::Range;

use super::cache::{LoadError, verified};
use super::nodes::{Body, Slot};
use super::path::{SPACE, loaded};
use super::{Map, Need, Root};
use crate::extent::Extent;
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

/// A part of the map that a [`Walk`] has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// A node of the tree or of a detached subtree.
    Node {
        /// Its level; 0 for a leaf.
        level: u8,
        /// Where its copy on the medium lies, if a checkpoint has written one.
        place: Option<Place>,
    },
    /// The copy of a node that is not in the map any more. It is live until the next checkpoint supersedes it.
    Dropped(Place),
    /// An extent of the tree, or one of a detached subtree that is still to be reaped.
    Extent(Extent),
}

/// A walk over all nodes and extents of a map. The map must not be changed before it ends; nodes may be loaded and
/// evicted.
pub struct Walk {
    /// Found, but not returned yet.
    found: VecDeque<Visit>,
    /// Where the next leaf of the tree begins; nothing if all of the tree was walked.
    next_leaf: Option<u64>,
    /// Nodes of detached subtrees that are still to be walked.
    detached: Vec<Root>,
}

impl Map {
    /// Returns the leaf that covers a sector; nothing if the map has no node. The next leaf covers the end of its range.
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
        Walk {
            found: self.dropped.iter().copied().map(Visit::Dropped).collect(),
            next_leaf: Some(0),
            detached: self.detached.clone(),
        }
    }

    /// Puts what begins at sector `at` behind `found`: the leaf and the nodes above it. Returns where the next leaf begins.
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
        let extents = self.nodes.leaf(path.leaf()).extents();
        found.extend(extents.map(Visit::Extent));
        Ok((path.range.end < SPACE.end).then_some(path.range.end))
    }
}

impl Walk {
    /// Returns the next node or extent; nothing if all were returned. The order is not specified.
    ///
    /// # Errors
    /// [`Need`] if a node has to be read and given to [`Walk::load`].
    pub fn next(&mut self, map: &Map) -> Result<Option<Visit>, Need> {
        loop {
            if let Some(visit) = self.found.pop_front() {
                return Ok(Some(visit));
            }
            if let Some(at) = self.next_leaf {
                self.next_leaf = map.visit_leaf(at, &mut self.found)?;
            } else if let Some(root) = self.detached.last().copied() {
                let id = loaded(root.slot, root.level, SPACE)?;
                self.detached.pop();
                let place = map.nodes.copy(id).map(|(place, _)| place);
                let level = root.level;
                self.found.push_back(Visit::Node { level, place });
                match &map.nodes.get(id).body {
                    Body::Leaf(leaf) => self.found.extend(leaf.extents().map(Visit::Extent)),
                    Body::Inner(inner) => self.go_below(level, inner.slots.iter().copied()),
                }
            } else {
                return Ok(None);
            }
        }
    }

    fn go_below(&mut self, level: u8, children: impl Iterator<Item = Slot>) {
        let level = level.saturating_sub(1);
        self.detached
            .extend(children.map(|slot| Root { slot, level }));
    }

    /// Takes in a node that was read from where `need` says.
    ///
    /// # Errors
    /// If the bytes are not that node.
    pub fn load(&mut self, map: &mut Map, need: &Need, bytes: &[u8]) -> Result<(), LoadError> {
        if !self.awaits(need) {
            return map.load(need, bytes);
        }
        let block = verified(map.volume, need, bytes)?;
        self.pass(need);
        match block.content {
            Content::Leaf(extents) => self.found.extend(extents.into_iter().map(Visit::Extent)),
            Content::Inner(children) => {
                let slots = children.iter().map(|child| Slot::Medium {
                    place: child.place,
                    crc: child.crc,
                });
                self.go_below(need.level, slots);
            }
        }
        Ok(())
    }

    /// Goes on without what is below a node of a detached subtree, because that node is damaged. The node itself is
    /// returned by [`Walk::next`]. Returns false, and does nothing, if `need` is not such a node.
    pub fn skip(&mut self, need: &Need) -> bool {
        let awaits = self.awaits(need);
        if awaits {
            self.pass(need);
        }
        awaits
    }

    /// Returns true if the walk needs this node of a detached subtree.
    fn awaits(&self, need: &Need) -> bool {
        let (place, crc) = (need.place, need.crc);
        let missing = Slot::Medium { place, crc };
        let next = self.detached.last();
        self.next_leaf.is_none()
            && next.is_some_and(|root| root.slot == missing && root.level == need.level)
    }

    fn pass(&mut self, need: &Need) {
        self.detached.pop();
        let (level, place) = (need.level, Some(need.place));
        self.found.push_back(Visit::Node { level, place });
    }
}
