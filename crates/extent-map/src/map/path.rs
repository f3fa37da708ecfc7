//! Paths from the root to a node.

use std::ops::Range;

use super::nodes::{InnerNode, NodeBody, NodeIndex, NodeLocation};
use super::{ExtentMap, TreeRoot};
use crate::format::LEVELS_MAX;
use crate::place::LogPlace;

/// All sectors that a map can have.
pub(super) const SPACE: Range<u64> = 0..u64::MAX;

/// A node that must be read and passed to [`ExtentMap::load`] before the operation can succeed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the map's node of level {level} at place {} is not in memory", place.0)]
pub struct NeededNode {
    /// The place of the node.
    pub place: LogPlace,
    /// The CRC32C stored in the node.
    pub crc: u32,
    /// The level; 0 for a leaf.
    pub level: u8,
    /// The sectors that the node covers.
    pub range: Range<u64>,
}

/// A node on a path, and the index of its child on the path.
#[derive(Clone, Copy)]
pub(super) struct PathStep {
    pub(super) id: NodeIndex,
    pub(super) child: u16,
}

impl PathStep {
    pub(super) fn child(self) -> usize {
        self.child.into()
    }
}

/// A path from the root to a node in memory.
pub(super) struct NodePath {
    steps: [PathStep; LEVELS_MAX as usize],
    len: usize,
    /// The sectors that the last node covers.
    pub(super) range: Range<u64>,
}

impl NodePath {
    /// Returns the steps from the root to the node, including both.
    pub(super) fn steps(&self) -> &[PathStep] {
        &self.steps[..self.len]
    }

    /// Returns the last node of the path.
    pub(super) fn leaf(&self) -> NodeIndex {
        self.steps[self.len - 1].id
    }

    fn push(&mut self, id: NodeIndex) {
        self.steps[self.len] = PathStep { id, child: 0 };
        self.len += 1;
    }

    /// Continues the path at the child of the last node that covers `key`.
    fn choose(&mut self, inner: &InnerNode, key: u64) -> NodeLocation {
        let child = inner.child_of(key);
        self.steps[self.len - 1].child = child as u16;
        narrow(&mut self.range, inner, child);
        inner.slots[child]
    }
}

/// Narrows a node's range to the range of one of its children.
pub(super) fn narrow(range: &mut Range<u64>, inner: &InnerNode, child: usize) {
    if child > 0 {
        range.start = inner.keys[child];
    }
    if let Some(end) = inner.keys.get(child + 1) {
        range.end = *end;
    }
}

/// The reference to a node in the tree. The node may be in memory or not.
pub(super) struct NodeRef {
    /// The parent and the index of the node in it; `None` for the root.
    parent: Option<(NodeIndex, usize)>,
    pub(super) slot: NodeLocation,
    /// The sectors that the node covers.
    pub(super) range: Range<u64>,
}

impl ExtentMap {
    /// Returns the path to the node of this level that covers `key`, or `None` if the tree has fewer levels.
    pub(super) fn find(&self, key: u64, level: u8) -> Result<Option<NodePath>, NeededNode> {
        let Some(TreeRoot { slot, level: top }) = self.root.filter(|root| root.level >= level)
        else {
            return Ok(None);
        };
        let id = loaded(slot, top, SPACE)?;
        let nowhere = PathStep { id, child: 0 };
        let mut path = NodePath {
            steps: [nowhere; LEVELS_MAX as usize],
            len: 0,
            range: SPACE,
        };
        let (mut id, mut at) = (id, top);
        loop {
            let node = self.nodes.get(id);
            node.touch();
            path.push(id);
            let NodeBody::Inner(inner) = &node.body else {
                break;
            };
            if at == level {
                break;
            }
            at -= 1;
            let slot = path.choose(inner, key);
            id = loaded(slot, at, path.range.clone())?;
        }
        Ok(Some(path))
    }

    /// Returns the reference to the node of this level that covers `key`, or `None` if the tree has fewer levels.
    pub(super) fn hook(&self, key: u64, level: u8) -> Result<Option<NodeRef>, NeededNode> {
        let Some(root) = self.root.filter(|root| root.level >= level) else {
            return Ok(None);
        };
        if root.level == level {
            return Ok(Some(NodeRef {
                parent: None,
                slot: root.slot,
                range: SPACE,
            }));
        }
        let Some(mut path) = self.find(key, level + 1)? else {
            return Ok(None);
        };
        let parent = path.leaf();
        let slot = path.choose(self.nodes.inner(parent), key);
        let child = path.steps[path.len - 1].child();
        Ok(Some(NodeRef {
            parent: Some((parent, child)),
            slot,
            range: path.range,
        }))
    }

    /// Replaces the location of a node that was loaded or evicted.
    pub(super) fn set_slot(&mut self, hook: &NodeRef, slot: NodeLocation) {
        match hook.parent {
            Some((parent, child)) => self.nodes.set_slot(parent, child, slot),
            None => self.root.as_mut().expect("it was found at the root").slot = slot,
        }
    }
}

/// Returns the node in a slot, or [`NeededNode`] if it is not in memory.
pub(super) fn loaded(
    slot: NodeLocation,
    level: u8,
    range: Range<u64>,
) -> Result<NodeIndex, NeededNode> {
    match slot {
        NodeLocation::Loaded(id) => Ok(id),
        NodeLocation::Medium { place, crc } => Err(NeededNode {
            place,
            crc,
            level,
            range,
        }),
    }
}
