//! The nodes that are in memory, and how much they take of it.

use std::cell::Cell;
use std::rc::Rc;

use super::ALLOCATION_BYTES;
use super::leaf::Leaf;
use crate::place::Place;

/// Room for children comes in steps of so many.
const STEP: usize = 8;
/// What a `Rc` keeps beside its content.
const COUNTS_BYTES: usize = 16;

/// Which node in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeId(u32);

impl NodeId {
    const NONE: NodeId = NodeId(u32::MAX);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node's parent, or the map for its root, knows of it.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    place: Place,
    crc: u32,
    id: NodeId,
}

impl Slot {
    const NOWHERE: Place = Place(u64::MAX);

    /// Of a node that is on the medium only.
    pub(super) fn on_medium(place: Place, crc: u32) -> Slot {
        let id = NodeId::NONE;
        Slot { place, crc, id }
    }

    /// Of a node that is in memory only.
    pub(super) fn in_memory(id: NodeId) -> Slot {
        let (place, crc) = (Slot::NOWHERE, 0);
        Slot { place, crc, id }
    }

    /// The node, if it is in memory.
    pub(super) fn id(&self) -> Option<NodeId> {
        (self.id != NodeId::NONE).then_some(self.id)
    }

    /// Where its copy on the medium lies, if the last checkpoint has one, and the CRC32C of that.
    pub(super) fn home(&self) -> Option<(Place, u32)> {
        (self.place != Slot::NOWHERE).then_some((self.place, self.crc))
    }

    pub(super) fn loaded(&mut self, id: NodeId) {
        self.id = id;
    }

    pub(super) fn evicted(&mut self) {
        self.id = NodeId::NONE;
    }

    pub(super) fn written(&mut self, place: Place, crc: u32) {
        (self.place, self.crc) = (place, crc);
    }
}

/// Children in order of their keys. What lies before the second key belongs to the first child.
#[derive(Clone, Default)]
pub(super) struct Inner {
    pub(super) keys: Vec<u64>,
    pub(super) slots: Vec<Slot>,
}

impl Inner {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The child that covers `key`.
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

    /// Takes all children from `at` on out, into a node of their own.
    pub(super) fn split_off(&mut self, at: usize) -> Inner {
        let right = Inner {
            keys: self.keys.split_off(at),
            slots: self.slots.split_off(at),
        };
        self.keys.shrink_to_fit();
        self.slots.shrink_to_fit();
        right
    }

    /// Puts the children of `right` behind its own.
    pub(super) fn append(&mut self, mut right: Inner) {
        self.keys.reserve_exact(right.len());
        self.slots.reserve_exact(right.len());
        self.keys.append(&mut right.keys);
        self.slots.append(&mut right.slots);
    }

    /// The children that are in memory, with their places in the node.
    pub(super) fn loaded(&self) -> impl Iterator<Item = (usize, NodeId)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(at, slot)| Some((at, slot.id()?)))
    }

    fn bytes(&self) -> usize {
        let vectors = self.keys.capacity() * size_of::<u64>()
            + self.slots.capacity() * size_of::<Slot>()
            + size_of::<Inner>();
        vectors + COUNTS_BYTES + 3 * ALLOCATION_BYTES
    }
}

/// What a node holds.
#[derive(Clone)]
pub(super) enum Body {
    Leaf(Leaf),
    Inner(Rc<Inner>),
    /// No node: the next that is free.
    Free(NodeId),
}

impl Body {
    fn bytes(&self) -> usize {
        match self {
            Body::Leaf(leaf) => leaf.bytes(),
            Body::Inner(inner) => inner.bytes(),
            Body::Free(_) => 0,
        }
    }

    fn is_shared(&self) -> bool {
        match self {
            Body::Leaf(leaf) => leaf.is_shared(),
            Body::Inner(inner) => Rc::strong_count(inner) > 1,
            Body::Free(_) => false,
        }
    }

    /// Entries or children.
    pub(super) fn len(&self) -> usize {
        match self {
            Body::Leaf(leaf) => leaf.len(),
            Body::Inner(inner) => inner.len(),
            Body::Free(_) => 0,
        }
    }

    /// A sector that the node covers, unless it is an empty one.
    pub(super) fn key(&self) -> u64 {
        match self {
            Body::Leaf(leaf) => leaf.base(),
            Body::Inner(inner) => inner.keys.first().copied().unwrap_or(0),
            Body::Free(_) => 0,
        }
    }
}

/// A node in memory.
pub(super) struct Node {
    pub(super) body: Body,
    /// The epoch of the map in which it was last changed; 0 if it is as it is on the medium.
    pub(super) epoch: u32,
    /// Its place in the snapshot under way, [`Node::NOT_HELD`] if it is not in it.
    pub(super) held: u32,
    pub(super) level: u8,
    /// Whether it was looked at since the hand of the clock passed it.
    used: Cell<bool>,
}

impl Node {
    pub(super) const NOT_HELD: u32 = u32::MAX;

    pub(super) fn new(body: Body, level: u8, epoch: u32) -> Node {
        Node {
            body,
            epoch,
            held: Node::NOT_HELD,
            level,
            used: Cell::new(true),
        }
    }

    pub(super) fn touch(&self) {
        if !self.used.get() {
            self.used.set(true);
        }
    }

    /// Whether it was used since this was asked last.
    pub(super) fn take_used(&self) -> bool {
        self.used.replace(false)
    }

    pub(super) fn is_free(&self) -> bool {
        matches!(self.body, Body::Free(_))
    }
}

/// All nodes in memory.
pub(super) struct Nodes {
    all: Vec<Node>,
    free: NodeId,
    /// Memory of the bodies.
    bytes: usize,
    /// Memory of bodies that only a snapshot holds any more.
    copied: usize,
    /// Nodes that are as they are on the medium.
    clean: usize,
}

impl Nodes {
    pub(super) fn new() -> Nodes {
        Nodes {
            all: Vec::new(),
            free: NodeId::NONE,
            bytes: 0,
            copied: 0,
            clean: 0,
        }
    }

    /// Memory that all of it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.all.capacity() * size_of::<Node>() + self.bytes + self.copied
    }

    /// Memory of the bodies, counted anew.
    pub(super) fn count_bytes(&self) -> usize {
        self.all.iter().map(|node| node.body.bytes()).sum()
    }

    pub(super) fn body_bytes(&self) -> usize {
        self.bytes
    }

    /// How many places for nodes there are, free ones included.
    pub(super) fn places(&self) -> usize {
        self.all.len()
    }

    pub(super) fn id_at(index: usize) -> NodeId {
        NodeId(index as u32)
    }

    pub(super) fn clean(&self) -> usize {
        self.clean
    }

    pub(super) fn get(&self, id: NodeId) -> &Node {
        &self.all[id.index()]
    }

    pub(super) fn leaf(&self, id: NodeId) -> &Leaf {
        match &self.get(id).body {
            Body::Leaf(leaf) => leaf,
            _ => unreachable!("a node of level 0 is a leaf"),
        }
    }

    pub(super) fn inner(&self, id: NodeId) -> &Inner {
        match &self.get(id).body {
            Body::Inner(inner) => inner,
            _ => unreachable!("a node above level 0 is none"),
        }
    }

    pub(super) fn add(&mut self, node: Node) -> NodeId {
        self.bytes += node.body.bytes();
        self.clean += usize::from(node.epoch == 0);
        let id = self.free;
        if id == NodeId::NONE {
            if self.all.len() == self.all.capacity() {
                self.all.reserve_exact(self.all.len() / 16 + 16);
            }
            self.all.push(node);
            return Nodes::id_at(self.all.len() - 1);
        }
        let place = &mut self.all[id.index()];
        if let Body::Free(next) = place.body {
            self.free = next;
        }
        *place = node;
        id
    }

    pub(super) fn remove(&mut self, id: NodeId) -> Node {
        let free = Node::new(Body::Free(self.free), 0, 0);
        let node = std::mem::replace(&mut self.all[id.index()], free);
        self.free = id;
        self.bytes -= node.body.bytes();
        self.copied += if node.body.is_shared() {
            node.body.bytes()
        } else {
            0
        };
        self.clean -= usize::from(node.epoch == 0);
        node
    }

    /// Changes what a node holds. What a snapshot holds of it stays as it was.
    fn edit<T>(&mut self, id: NodeId, change: impl FnOnce(&mut Body) -> T) -> T {
        let body = &mut self.all[id.index()].body;
        let (bytes, shared) = (body.bytes(), body.is_shared());
        let done = change(body);
        self.bytes = self.bytes - bytes + body.bytes();
        self.copied += if shared { bytes } else { 0 };
        done
    }

    pub(super) fn edit_leaf<T>(&mut self, id: NodeId, change: impl FnOnce(&mut Leaf) -> T) -> T {
        self.edit(id, |body| match body {
            Body::Leaf(leaf) => change(leaf),
            _ => unreachable!("a node of level 0 is a leaf"),
        })
    }

    pub(super) fn edit_inner<T>(&mut self, id: NodeId, change: impl FnOnce(&mut Inner) -> T) -> T {
        self.edit(id, |body| match body {
            Body::Inner(inner) => change(Rc::make_mut(inner)),
            _ => unreachable!("a node above level 0 is none"),
        })
    }

    /// Its content is what the medium has, or no longer.
    pub(super) fn set_epoch(&mut self, id: NodeId, epoch: u32) {
        let node = &mut self.all[id.index()];
        self.clean -= usize::from(node.epoch == 0);
        self.clean += usize::from(epoch == 0);
        node.epoch = epoch;
    }

    pub(super) fn set_held(&mut self, id: NodeId, held: u32) {
        self.all[id.index()].held = held;
    }

    /// The snapshot is gone, and with it what only it held.
    pub(super) fn snapshot_gone(&mut self) {
        self.copied = 0;
    }
}
