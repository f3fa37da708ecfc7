//! The nodes in memory, and the memory that they take.

mod ring;
pub(super) mod states;

use std::cell::Cell;
use std::collections::BTreeMap;

use super::ALLOCATION_BYTES;
use super::leaf::LeafNode;
use crate::format::LEAF_ENTRY_BYTES;
use crate::place::LogPlace;
use ring::NodeRing;
use states::{FrozenNode, NodeCounts, SnapshotEpochs};

/// The capacity for children grows in steps of this size.
const STEP: usize = 8;

/// The index of a node in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct NodeIndex(u32);

impl NodeIndex {
    pub(super) const NONE: NodeIndex = NodeIndex(u32::MAX);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The location of a node, as its parent stores it, or the map for the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NodeLocation {
    /// On the device only, with the CRC32C stored in the node.
    Medium { place: LogPlace, crc: u32 },
    /// In memory. The node contains the place of its copy on the device.
    Loaded(NodeIndex),
}

impl NodeLocation {
    /// Returns the node if it is in memory.
    pub(super) fn id(self) -> Option<NodeIndex> {
        match self {
            NodeLocation::Loaded(id) => Some(id),
            NodeLocation::Medium { .. } => None,
        }
    }
}

/// Children in order of their keys. The first child covers all sectors before the second key.
#[derive(Clone, Default)]
pub(super) struct InnerNode {
    pub(super) keys: Vec<u64>,
    pub(super) slots: Vec<NodeLocation>,
}

impl InnerNode {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the index of the child that covers `key`.
    pub(super) fn child_of(&self, key: u64) -> usize {
        let behind = self.keys.partition_point(|first| *first <= key);
        behind.saturating_sub(1)
    }

    pub(super) fn insert(&mut self, at: usize, key: u64, slot: NodeLocation) {
        if self.keys.len() == self.keys.capacity() {
            self.keys.reserve_exact(STEP);
            self.slots.reserve_exact(STEP);
        }
        self.keys.insert(at, key);
        self.slots.insert(at, slot);
    }

    pub(super) fn remove(&mut self, at: usize) -> NodeLocation {
        self.keys.remove(at);
        self.slots.remove(at)
    }

    /// Moves all children from `at` on into a new node.
    pub(super) fn split_off(&mut self, at: usize) -> InnerNode {
        let right = InnerNode {
            keys: self.keys.split_off(at),
            slots: self.slots.split_off(at),
        };
        self.keys.shrink_to_fit();
        self.slots.shrink_to_fit();
        right
    }

    /// Appends the children of `right`.
    pub(super) fn append(&mut self, mut right: InnerNode) {
        self.keys.reserve_exact(right.len());
        self.slots.reserve_exact(right.len());
        self.keys.append(&mut right.keys);
        self.slots.append(&mut right.slots);
    }

    /// Returns true if a child is in memory.
    pub(super) fn has_loaded(&self) -> bool {
        self.slots.iter().any(|slot| slot.id().is_some())
    }

    fn bytes(&self) -> usize {
        let vectors = self.keys.capacity() * size_of::<u64>()
            + self.slots.capacity() * size_of::<NodeLocation>()
            + size_of::<InnerNode>();
        vectors + 3 * ALLOCATION_BYTES
    }
}

/// The content of a node.
#[derive(Clone)]
pub(super) enum NodeBody {
    Leaf(LeafNode),
    Inner(Box<InnerNode>),
}

impl NodeBody {
    pub(super) fn bytes(&self) -> usize {
        match self {
            NodeBody::Leaf(leaf) => leaf.bytes(),
            NodeBody::Inner(inner) => inner.bytes(),
        }
    }

    /// Returns the number of entries or children.
    pub(super) fn len(&self) -> usize {
        match self {
            NodeBody::Leaf(leaf) => leaf.len(),
            NodeBody::Inner(inner) => inner.len(),
        }
    }

    /// Returns the space that the entries take on the device, in entries: the number of children, or for a leaf its
    /// bytes in units of the longest entry, rounded up. 0 if the node is empty.
    pub(super) fn fill(&self) -> usize {
        match self {
            NodeBody::Leaf(leaf) => leaf.encoded().div_ceil(LEAF_ENTRY_BYTES),
            NodeBody::Inner(inner) => inner.len(),
        }
    }

    /// Returns a sector that the node covers. Meaningless if the node is empty.
    pub(super) fn key(&self) -> u64 {
        match self {
            NodeBody::Leaf(leaf) => leaf.base(),
            NodeBody::Inner(inner) => inner.keys.first().copied().unwrap_or(0),
        }
    }
}

/// A node in memory. `states.rs` describes how its numbers determine its state.
pub(super) struct LoadedNode {
    pub(super) body: NodeBody,
    /// The place of the copy on the device; [`LoadedNode::NOWHERE`] before a checkpoint has written the node.
    pub(super) place: LogPlace,
    /// The CRC32C of the copy.
    pub(super) crc: u32,
    /// The snapshot that wrote the copy; 0 if the node was loaded.
    pub(super) written_by: u32,
    /// The epoch in which the node was last changed; 0 if the node is equal to its copy.
    pub(super) epoch: u32,
    /// The neighbours in the node's ring.
    pub(super) next: NodeIndex,
    pub(super) previous: NodeIndex,
    /// The level; [`LoadedNode::FREE`] for a free slot.
    pub(super) level: u8,
    /// True if the clock ignores the node, since it can never be evicted.
    pub(super) retired: bool,
    /// True if the node was used since the hand of the clock passed it.
    used: Cell<bool>,
}

// Apart from the entries, nodes are most of the map's memory.
const _: () = assert!(size_of::<LoadedNode>() == 64 && size_of::<NodeLocation>() == 16);

impl LoadedNode {
    pub(super) const NOWHERE: LogPlace = LogPlace(u64::MAX);
    const FREE: u8 = u8::MAX;

    /// Returns a node that no checkpoint has written.
    pub(super) fn new(body: NodeBody, level: u8, epoch: u32) -> LoadedNode {
        LoadedNode {
            body,
            place: LoadedNode::NOWHERE,
            crc: 0,
            written_by: 0,
            epoch,
            next: NodeIndex::NONE,
            previous: NodeIndex::NONE,
            level,
            retired: false,
            used: Cell::new(true),
        }
    }

    fn free() -> LoadedNode {
        LoadedNode::new(NodeBody::Leaf(LeafNode::nothing()), LoadedNode::FREE, 0)
    }

    pub(super) fn touch(&self) {
        if !self.used.get() {
            self.used.set(true);
        }
    }

    /// Returns true if the node was used since the last call.
    pub(super) fn take_used(&self) -> bool {
        self.used.replace(false)
    }

    pub(super) fn is_free(&self) -> bool {
        self.level == LoadedNode::FREE
    }
}

/// All nodes in memory.
pub(super) struct NodeTable {
    all: Vec<LoadedNode>,
    /// Slots whose ids are available.
    pub(super) free: NodeRing,
    /// Memory of the bodies.
    bytes: usize,
    pub(super) epochs: SnapshotEpochs,
    pub(super) counts: NodeCounts,
    /// Nodes that the clock examines: those equal to a copy of a completed checkpoint.
    pub(super) clean: NodeRing,
    /// Nodes that the snapshot under way has written and that are unchanged since.
    pub(super) written: NodeRing,
    /// Nodes of the snapshot that changed or left the tree before they were written, in their state at the freeze.
    /// Their ids are not reused until they are written.
    pub(super) aside: BTreeMap<NodeIndex, FrozenNode>,
    /// Memory of the bodies set aside.
    pub(super) aside_bytes: usize,
}

impl NodeTable {
    pub(super) fn new() -> NodeTable {
        NodeTable {
            all: Vec::new(),
            free: NodeRing::default(),
            bytes: 0,
            epochs: SnapshotEpochs::default(),
            counts: NodeCounts::default(),
            clean: NodeRing::default(),
            written: NodeRing::default(),
            aside: BTreeMap::new(),
            aside_bytes: 0,
        }
    }

    /// Returns the memory of all nodes, including those set aside, in bytes.
    pub(super) fn memory(&self) -> usize {
        let aside = self.aside.len() * FrozenNode::BYTES + self.aside_bytes;
        self.all.capacity() * size_of::<LoadedNode>() + self.bytes + aside
    }

    /// Returns about the memory that compaction frees. Compaction leaves a quarter of all slots free.
    pub(super) fn sparse_bytes(&self) -> usize {
        let surplus = (4 * self.free.len()).saturating_sub(self.all.len());
        surplus.div_ceil(3) * size_of::<LoadedNode>()
    }

    /// Recounts the memory of the bodies, and of those set aside.
    pub(super) fn count_bytes(&self) -> (usize, usize) {
        let here = self.all.iter().map(|node| node.body.bytes()).sum();
        let aside = self.aside.values().map(|aside| aside.body.bytes()).sum();
        (here, aside)
    }

    /// Returns the memory of the bodies, and of those set aside.
    pub(super) fn body_bytes(&self) -> (usize, usize) {
        (self.bytes, self.aside_bytes)
    }

    /// Returns the number of slots for nodes, including free slots.
    pub(super) fn places(&self) -> usize {
        self.all.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = NodeIndex> {
        (0..self.all.len()).map(|at| NodeIndex(at as u32))
    }

    pub(super) fn get(&self, id: NodeIndex) -> &LoadedNode {
        &self.all[id.index()]
    }

    pub(super) fn get_mut(&mut self, id: NodeIndex) -> &mut LoadedNode {
        &mut self.all[id.index()]
    }

    pub(super) fn leaf(&self, id: NodeIndex) -> &LeafNode {
        match &self.get(id).body {
            NodeBody::Leaf(leaf) => leaf,
            NodeBody::Inner(_) => unreachable!("a node of level 0 is a leaf"),
        }
    }

    pub(super) fn inner(&self, id: NodeIndex) -> &InnerNode {
        match &self.get(id).body {
            NodeBody::Inner(inner) => inner,
            NodeBody::Leaf(_) => unreachable!("a node above level 0 is no leaf"),
        }
    }

    pub(super) fn add(&mut self, node: LoadedNode) -> NodeIndex {
        self.bytes += node.body.bytes();
        if let Some(id) = self.free.head() {
            self.free = self.free.unlink(self, id);
            *self.get_mut(id) = node;
            return id;
        }
        if self.all.len() == self.all.capacity() {
            self.all.reserve_exact(self.all.len() / 16 + 16);
        }
        self.all.push(node);
        NodeIndex(self.all.len() as u32 - 1)
    }

    /// Removes a node. Its id is not reused before [`NodeTable::release`].
    pub(super) fn take(&mut self, id: NodeIndex) -> LoadedNode {
        let node = std::mem::replace(self.get_mut(id), LoadedNode::free());
        self.bytes -= node.body.bytes();
        node
    }

    /// Makes the id of a removed node available.
    pub(super) fn release(&mut self, id: NodeIndex) {
        debug_assert!(self.get(id).is_free());
        self.free = self.free.link(self, id);
    }

    /// Moves a node that is in no ring to the next free slot. Returns the new id, which the caller must store in the
    /// parent.
    pub(super) fn relocate(&mut self, id: NodeIndex) -> NodeIndex {
        let node = self.take(id);
        let to = self.add(node);
        self.release(id);
        to
    }

    /// Removes the last slot if it is free. Otherwise, returns the node in it.
    pub(super) fn trim_last(&mut self) -> Option<NodeIndex> {
        let last = NodeIndex(self.all.len().checked_sub(1)? as u32);
        if !self.get(last).is_free() {
            return Some(last);
        }
        self.free = self.free.unlink(self, last);
        self.all.pop();
        let kept = self.all.len() + self.all.len() / 16 + 16;
        if self.all.capacity() > kept + kept / 16 {
            self.all.shrink_to(kept);
        }
        None
    }

    /// Changes the body of a node that is marked as changed.
    fn edit<T>(&mut self, id: NodeIndex, change: impl FnOnce(&mut NodeBody) -> T) -> T {
        debug_assert!(
            self.is_changed(id),
            "a change that no checkpoint would write"
        );
        let body = &mut self.all[id.index()].body;
        let before = body.bytes();
        let done = change(body);
        let after = body.bytes();
        self.bytes = self.bytes - before + after;
        self.counts.unclean_bytes = self.counts.unclean_bytes - before + after;
        done
    }

    pub(super) fn edit_leaf<T>(
        &mut self,
        id: NodeIndex,
        change: impl FnOnce(&mut LeafNode) -> T,
    ) -> T {
        self.edit(id, |body| match body {
            NodeBody::Leaf(leaf) => change(leaf),
            NodeBody::Inner(_) => unreachable!("a node of level 0 is a leaf"),
        })
    }

    pub(super) fn edit_inner<T>(
        &mut self,
        id: NodeIndex,
        change: impl FnOnce(&mut InnerNode) -> T,
    ) -> T {
        self.edit(id, |body| match body {
            NodeBody::Inner(inner) => change(inner),
            NodeBody::Leaf(_) => unreachable!("a node above level 0 is no leaf"),
        })
    }

    /// Replaces the location of a child that was loaded or evicted. This does not change the parent's state.
    pub(super) fn set_slot(&mut self, parent: NodeIndex, child: usize, slot: NodeLocation) {
        match &mut self.get_mut(parent).body {
            NodeBody::Inner(inner) => inner.slots[child] = slot,
            NodeBody::Leaf(_) => unreachable!("a leaf has no children"),
        }
    }
}
