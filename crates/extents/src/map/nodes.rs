//! The nodes in memory, and the memory that they take.

mod ring;
pub(super) mod states;

use std::cell::Cell;
use std::collections::BTreeMap;

use super::ALLOCATION_BYTES;
use super::leaf::Leaf;
use crate::format::LEAF_ENTRY_BYTES;
use crate::place::Place;
use ring::Ring;
use states::{Aside, Counts, Epochs};

/// The capacity for children grows in steps of this size.
const STEP: usize = 8;

/// The index of a node in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct NodeId(u32);

impl NodeId {
    pub(super) const NONE: NodeId = NodeId(u32::MAX);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The location of a node, as its parent stores it, or the map for the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    /// On the device only, with the CRC32C stored in the node.
    Medium { place: Place, crc: u32 },
    /// In memory. The node contains the place of its copy on the device.
    Loaded(NodeId),
}

impl Slot {
    /// Returns the node if it is in memory.
    pub(super) fn id(self) -> Option<NodeId> {
        match self {
            Slot::Loaded(id) => Some(id),
            Slot::Medium { .. } => None,
        }
    }
}

/// Children in order of their keys. The first child covers all sectors before the second key.
#[derive(Clone, Default)]
pub(super) struct Inner {
    pub(super) keys: Vec<u64>,
    pub(super) slots: Vec<Slot>,
}

impl Inner {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the index of the child that covers `key`.
    pub(super) fn child_of(&self, key: u64) -> usize {
        let behind = self.keys.partition_point(|first| *first <= key);
        behind.saturating_sub(1)
    }

    pub(super) fn insert(&mut self, at: usize, key: u64, slot: Slot) {
        if self.keys.len() == self.keys.capacity() {
            self.keys.reserve_exact(STEP);
            self.slots.reserve_exact(STEP);
        }
        self.keys.insert(at, key);
        self.slots.insert(at, slot);
    }

    pub(super) fn remove(&mut self, at: usize) -> Slot {
        self.keys.remove(at);
        self.slots.remove(at)
    }

    /// Moves all children from `at` on into a new node.
    pub(super) fn split_off(&mut self, at: usize) -> Inner {
        let right = Inner {
            keys: self.keys.split_off(at),
            slots: self.slots.split_off(at),
        };
        self.keys.shrink_to_fit();
        self.slots.shrink_to_fit();
        right
    }

    /// Appends the children of `right`.
    pub(super) fn append(&mut self, mut right: Inner) {
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
            + self.slots.capacity() * size_of::<Slot>()
            + size_of::<Inner>();
        vectors + 3 * ALLOCATION_BYTES
    }
}

/// The content of a node.
#[derive(Clone)]
pub(super) enum Body {
    Leaf(Leaf),
    Inner(Box<Inner>),
}

impl Body {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Body::Leaf(leaf) => leaf.bytes(),
            Body::Inner(inner) => inner.bytes(),
        }
    }

    /// Returns the number of entries or children.
    pub(super) fn len(&self) -> usize {
        match self {
            Body::Leaf(leaf) => leaf.len(),
            Body::Inner(inner) => inner.len(),
        }
    }

    /// Returns the space that the entries take on the device, in entries: the number of children, or for a leaf its
    /// bytes in units of the longest entry, rounded up. 0 if the node is empty.
    pub(super) fn fill(&self) -> usize {
        match self {
            Body::Leaf(leaf) => leaf.encoded().div_ceil(LEAF_ENTRY_BYTES),
            Body::Inner(inner) => inner.len(),
        }
    }

    /// Returns a sector that the node covers. Meaningless if the node is empty.
    pub(super) fn key(&self) -> u64 {
        match self {
            Body::Leaf(leaf) => leaf.base(),
            Body::Inner(inner) => inner.keys.first().copied().unwrap_or(0),
        }
    }
}

/// A node in memory. `states.rs` describes how its numbers determine its state.
pub(super) struct Node {
    pub(super) body: Body,
    /// The place of the copy on the device; [`Node::NOWHERE`] before a checkpoint has written the node.
    pub(super) place: Place,
    /// The CRC32C of the copy.
    pub(super) crc: u32,
    /// The snapshot that wrote the copy; 0 if the node was loaded.
    pub(super) written_by: u32,
    /// The epoch in which the node was last changed; 0 if the node is equal to its copy.
    pub(super) epoch: u32,
    /// The neighbours in the node's ring.
    pub(super) next: NodeId,
    pub(super) previous: NodeId,
    /// The level; [`Node::FREE`] for a free slot.
    pub(super) level: u8,
    /// True if the clock ignores the node, since it can never be evicted.
    pub(super) retired: bool,
    /// True if the node was used since the hand of the clock passed it.
    used: Cell<bool>,
}

// Apart from the entries, nodes are most of the map's memory.
const _: () = assert!(size_of::<Node>() == 64 && size_of::<Slot>() == 16);

impl Node {
    pub(super) const NOWHERE: Place = Place(u64::MAX);
    const FREE: u8 = u8::MAX;

    /// Returns a node that no checkpoint has written.
    pub(super) fn new(body: Body, level: u8, epoch: u32) -> Node {
        Node {
            body,
            place: Node::NOWHERE,
            crc: 0,
            written_by: 0,
            epoch,
            next: NodeId::NONE,
            previous: NodeId::NONE,
            level,
            retired: false,
            used: Cell::new(true),
        }
    }

    fn free() -> Node {
        Node::new(Body::Leaf(Leaf::nothing()), Node::FREE, 0)
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
        self.level == Node::FREE
    }
}

/// All nodes in memory.
pub(super) struct Nodes {
    all: Vec<Node>,
    /// Slots whose ids are available.
    pub(super) free: Ring,
    /// Memory of the bodies.
    bytes: usize,
    pub(super) epochs: Epochs,
    pub(super) counts: Counts,
    /// Nodes that the clock examines: those equal to a copy of a completed checkpoint.
    pub(super) clean: Ring,
    /// Nodes that the snapshot under way has written and that are unchanged since.
    pub(super) written: Ring,
    /// Nodes of the snapshot that changed or left the tree before they were written, in their state at the freeze.
    /// Their ids are not reused until they are written.
    pub(super) aside: BTreeMap<NodeId, Aside>,
    /// Memory of the bodies set aside.
    pub(super) aside_bytes: usize,
}

impl Nodes {
    pub(super) fn new() -> Nodes {
        Nodes {
            all: Vec::new(),
            free: Ring::default(),
            bytes: 0,
            epochs: Epochs::default(),
            counts: Counts::default(),
            clean: Ring::default(),
            written: Ring::default(),
            aside: BTreeMap::new(),
            aside_bytes: 0,
        }
    }

    /// Returns the memory of all nodes, including those set aside, in bytes.
    pub(super) fn memory(&self) -> usize {
        let aside = self.aside.len() * Aside::BYTES + self.aside_bytes;
        self.all.capacity() * size_of::<Node>() + self.bytes + aside
    }

    /// Returns about the memory that compaction frees. Compaction leaves a quarter of all slots free.
    pub(super) fn sparse_bytes(&self) -> usize {
        let surplus = (4 * self.free.len()).saturating_sub(self.all.len());
        surplus.div_ceil(3) * size_of::<Node>()
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

    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> {
        (0..self.all.len()).map(|at| NodeId(at as u32))
    }

    pub(super) fn get(&self, id: NodeId) -> &Node {
        &self.all[id.index()]
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.all[id.index()]
    }

    pub(super) fn leaf(&self, id: NodeId) -> &Leaf {
        match &self.get(id).body {
            Body::Leaf(leaf) => leaf,
            Body::Inner(_) => unreachable!("a node of level 0 is a leaf"),
        }
    }

    pub(super) fn inner(&self, id: NodeId) -> &Inner {
        match &self.get(id).body {
            Body::Inner(inner) => inner,
            Body::Leaf(_) => unreachable!("a node above level 0 is no leaf"),
        }
    }

    pub(super) fn add(&mut self, node: Node) -> NodeId {
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
        NodeId(self.all.len() as u32 - 1)
    }

    /// Removes a node. Its id is not reused before [`Nodes::release`].
    pub(super) fn take(&mut self, id: NodeId) -> Node {
        let node = std::mem::replace(self.get_mut(id), Node::free());
        self.bytes -= node.body.bytes();
        node
    }

    /// Makes the id of a removed node available.
    pub(super) fn release(&mut self, id: NodeId) {
        debug_assert!(self.get(id).is_free());
        self.free = self.free.link(self, id);
    }

    /// Moves a node that is in no ring to the next free slot. Returns the new id, which the caller must store in the
    /// parent.
    pub(super) fn relocate(&mut self, id: NodeId) -> NodeId {
        let node = self.take(id);
        let to = self.add(node);
        self.release(id);
        to
    }

    /// Removes the last slot if it is free. Otherwise, returns the node in it.
    pub(super) fn trim_last(&mut self) -> Option<NodeId> {
        let last = NodeId(self.all.len().checked_sub(1)? as u32);
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
    fn edit<T>(&mut self, id: NodeId, change: impl FnOnce(&mut Body) -> T) -> T {
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

    pub(super) fn edit_leaf<T>(&mut self, id: NodeId, change: impl FnOnce(&mut Leaf) -> T) -> T {
        self.edit(id, |body| match body {
            Body::Leaf(leaf) => change(leaf),
            Body::Inner(_) => unreachable!("a node of level 0 is a leaf"),
        })
    }

    pub(super) fn edit_inner<T>(&mut self, id: NodeId, change: impl FnOnce(&mut Inner) -> T) -> T {
        self.edit(id, |body| match body {
            Body::Inner(inner) => change(inner),
            Body::Leaf(_) => unreachable!("a node above level 0 is no leaf"),
        })
    }

    /// Replaces the location of a child that was loaded or evicted. This does not change the parent's state.
    pub(super) fn set_slot(&mut self, parent: NodeId, child: usize, slot: Slot) {
        match &mut self.get_mut(parent).body {
            Body::Inner(inner) => inner.slots[child] = slot,
            Body::Leaf(_) => unreachable!("a leaf has no children"),
        }
    }
}
