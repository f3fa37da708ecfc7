//! The walk over the nodes that a snapshot writes, one at a time.
//!
//! A node is identified by its id. Its state at the freeze is in memory or, if it was changed since, among the nodes
//! set aside. Both have their children in the same order, so a position in the walk stays valid after changes.

use super::nodes::{InnerNode, NodeBody, NodeIndex, NodeLocation};
use super::{ExtentMap, MapTotals, TreeRoot};
use crate::format::{ChildRef, DetachedRef, NODE_BYTES, NodeContent, RootRef, StoredNode as Block};
use crate::place::LogPlace;

/// A node that a checkpoint must write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeWrite {
    /// The level; 0 for a leaf.
    pub level: u8,
    /// A sector that the node covers. [`ExtentMap::redirty`] finds the node by level and sector.
    pub key: u64,
    /// The encoded node.
    pub bytes: [u8; NODE_BYTES],
}

/// A node on the path to the next node to write, or that node itself.
#[derive(Clone, Copy)]
struct SnapshotFrame {
    id: NodeIndex,
    /// The index of the first child that is not written.
    child: usize,
}

/// A snapshot that is being written.
pub(super) struct ActiveSnapshot {
    /// The counts at the freeze, if the map had a root.
    totals: Option<MapTotals>,
    /// The detached subtrees, followed by the root.
    roots: Vec<TreeRoot>,
    /// The index of the first root that is not written.
    at: usize,
    /// The path from a root to the next node.
    stack: Vec<SnapshotFrame>,
    /// The CRC32C of the node that was returned to the caller and is not written.
    handed_out: Option<u32>,
    /// Places that the checkpoint supersedes, as far as they are known.
    pub(super) superseded: Vec<LogPlace>,
    /// Places of written nodes that have left the tree. The next checkpoint supersedes these copies.
    pub(super) orphans: Vec<LogPlace>,
}

impl ActiveSnapshot {
    pub(super) fn new(
        totals: Option<MapTotals>,
        roots: Vec<TreeRoot>,
        dropped: Vec<LogPlace>,
    ) -> ActiveSnapshot {
        ActiveSnapshot {
            totals,
            roots,
            at: 0,
            stack: Vec::new(),
            handed_out: None,
            superseded: dropped,
            orphans: Vec::new(),
        }
    }

    /// Returns the capacity of the lists, in places.
    pub(super) fn places(&self) -> usize {
        self.superseded.capacity() + self.orphans.capacity()
    }
}

impl ExtentMap {
    /// Returns the next node of the snapshot to write, or `None` if all are written. Children come before their
    /// parents. The caller must call [`ExtentMap::written`] after each node; until then, the same node is returned.
    ///
    /// # Panics
    /// If no snapshot is under way.
    pub fn next_to_write(&mut self) -> Option<NodeWrite> {
        let mut writing = self.writing.take().expect("a snapshot is under way");
        let id = self.descend(&mut writing);
        let next = id.map(|id| {
            let next = self.encode(id);
            writing.handed_out = Block::crc(&next.bytes);
            next
        });
        self.writing = Some(writing);
        next
    }

    /// Moves to the next node whose children are all written.
    fn descend(&self, writing: &mut ActiveSnapshot) -> Option<NodeIndex> {
        while writing.stack.is_empty() {
            match writing.roots.get(writing.at)?.slot {
                NodeLocation::Loaded(id) => writing.stack.push(SnapshotFrame { id, child: 0 }),
                NodeLocation::Medium { .. } => writing.at += 1,
            }
        }
        loop {
            let top = writing.stack.last_mut()?;
            let NodeBody::Inner(inner) = self.nodes.frozen(top.id).0 else {
                return Some(top.id);
            };
            let mut rest =
                (top.child..inner.len()).filter_map(|at| Some((at, inner.slots[at].id()?)));
            let Some((at, id)) = rest.find(|(_, id)| self.nodes.is_unwritten(*id)) else {
                top.child = inner.len();
                return Some(top.id);
            };
            top.child = at;
            writing.stack.push(SnapshotFrame { id, child: 0 });
        }
    }

    fn encode(&self, id: NodeIndex) -> NodeWrite {
        let (body, level) = self.nodes.frozen(id);
        let content = match body {
            NodeBody::Inner(inner) => NodeContent::Inner(self.children(inner)),
            NodeBody::Leaf(leaf) => NodeContent::Leaf(leaf.extents().collect()),
        };
        let block = Block {
            volume: self.volume,
            level,
            base: body.key(),
            content,
        };
        NodeWrite {
            level,
            key: block.base,
            bytes: block.encode(),
        }
    }

    fn children(&self, inner: &InnerNode) -> Vec<ChildRef> {
        let child = |(first, slot): (&u64, &NodeLocation)| {
            let (place, crc) = match *slot {
                NodeLocation::Medium { place, crc } => (place, crc),
                NodeLocation::Loaded(id) => {
                    self.nodes.copy(id).expect("children are written first")
                }
            };
            let first = *first;
            ChildRef { first, place, crc }
        };
        inner.keys.iter().zip(&inner.slots).map(child).collect()
    }

    /// Records that the node returned by [`ExtentMap::next_to_write`] is written, or is being written, at `place`. It must be
    /// durable before the snapshot is completed.
    ///
    /// # Panics
    /// If no node was returned.
    pub fn written(&mut self, place: LogPlace) {
        let writing = self.writing.as_mut().expect("a snapshot is under way");
        let crc = writing.handed_out.take().expect("a node was handed out");
        let SnapshotFrame { id, .. } = writing
            .stack
            .pop()
            .expect("the stack holds the path to the node");
        let (before, gone) = self.nodes.written(id, place, crc);
        writing.superseded.extend(before);
        if gone {
            writing.orphans.push(place);
        }
        if let Some(parent) = writing.stack.last_mut() {
            self.nodes.place_child(parent.id, parent.child, place, crc);
            parent.child += 1;
        } else {
            writing.roots[writing.at].slot = NodeLocation::Medium { place, crc };
            writing.at += 1;
        }
    }

    /// Returns the number of nodes of the snapshot under way that are not written.
    pub fn unwritten(&self) -> usize {
        self.nodes.counts.frozen + self.nodes.aside.len()
    }

    /// Returns the places that the snapshot under way supersedes: nodes that are reachable from the previous checkpoint
    /// but not from the snapshot's roots.
    ///
    /// # Panics
    /// If no snapshot is under way, or a node of it was not written.
    pub fn superseded(&self) -> &[LogPlace] {
        &self.all_written().superseded
    }

    /// Returns the root of the map at the freeze, unless the map was empty, and the roots of the detached subtrees.
    ///
    /// # Panics
    /// As [`ExtentMap::superseded`].
    pub fn frozen_roots(&self) -> (Option<RootRef>, Vec<DetachedRef>) {
        let writing = self.all_written();
        let nodes = writing.roots.iter().map(|root| {
            let NodeLocation::Medium { place, crc } = root.slot else {
                unreachable!("all roots are written");
            };
            let level = root.level;
            DetachedRef { place, level, crc }
        });
        let mut detached: Vec<DetachedRef> = nodes.collect();
        let root = writing.totals.and_then(|totals| {
            let DetachedRef { place, level, crc } = detached.pop()?;
            Some(RootRef {
                place,
                level,
                crc,
                sectors: totals.sectors,
                entries: totals.entries,
                nodes: totals.nodes,
            })
        });
        (root, detached)
    }

    fn all_written(&self) -> &ActiveSnapshot {
        assert!(self.unwritten() == 0, "nodes that are not written");
        self.writing.as_ref().expect("a snapshot is under way")
    }
}
