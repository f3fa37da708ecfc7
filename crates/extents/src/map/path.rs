//! Paths from the root to a node.

use std::ops::Range;

use super::nodes::{Body, Inner, NodeId, Slot};
use super::{Map, Root};
use crate::format::LEVELS_MAX;
use crate::place::Place;

/// All sectors that a map can have.
pub(super) const SPACE: Range<u64> = 0..u64::MAX;

/// A node that must be read and passed to [`Map::load`] before the operation can succeed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the map's node of level {level} at place {} is not in memory", place.0)]
pub struct Need {
    /// The place of the node.
    pub place: Place,
    /// The CRC32C stored in the node.
    pub crc: u32,
    /// The level; 0 for a leaf.
    pub level: u8,
    /// The sectors that the node covers.
    pub range: Range<u64>,
}

/// A node on a path, and the index of its child on the path.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) id: NodeId,
    pub(super) child: u16,
}

impl Step {
    pub(super) fn child(self) -> usize {
        self.child.into()
    }
}

/// A path from the root to a node in memory.
pub(super) struct Path {
    steps: [Step; LEVELS_MAX as usize],
    len: usize,
    /// The sectors that the last node covers.
    pub(super) range: Range<u64>,
}

impl Path {
    /// Returns the steps from the root to the node, including both.
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps[..self.len]
    }

    /// Returns the last node of the path.
    pub(super) fn leaf(&self) -> NodeId {
        self.steps[self.len - 1].id
    }

    fn push(&mut self, id: NodeId) {
        self.steps[self.len] = Step { id, child: 0 };
        self.len += 1;
    }

    /// Continues the path at the child of the last node that covers `key`.
    fn choose(&mut self, inner: &Inner, key: u64) -> Slot {
        let child = inner.child_of(key);
        self.steps[self.len - 1].child = child as u16;
        narrow(&mut self.range, inner, child);
        inner.slots[child]
    }
}

/// Narrows a node's range to the range of one of its children.
pub(super) fn narrow(range: &mut Range<u64>, inner: &Inner, child: usize) {
    if child > 0 {
        range.start = inner.keys[child];
    }
    if let Some(end) = inner.keys.get(child + 1) {
        range.end = *end;
    }
}

/// The reference to a node in the tree. The node may be in memory or not.
pub(super) struct Hook {
    /// The parent and the index of the node in it; `None` for the root.
    parent: Option<(NodeId, usize)>,
    pub(super) slot: Slot,
    /// The sectors that the node covers.
    pub(super) range: Range<u64>,
}

impl Map {
    /// Returns the path to the node of this level that covers `key`, or `None` if the tree has fewer levels.
    pub(super) fn find(&self, key: u64, level: u8) -> Result<Option<Path>, Need> {
        let Some(Root { slot, level: top }) = self.root.filter(|root| root.level >= level) else {
            return Ok(None);
        };
        let id = loaded(slot, top, SPACE)?;
        let nowhere = Step { id, child: 0 };
        let mut path = Path {
            steps: [nowhere; LEVELS_MAX as usize],
            len: 0,
            range: SPACE,
        };
        let (mut id, mut at) = (id, top);
        loop {
            let node = self.nodes.get(id);
            node.touch();
            path.push(id);
            let Body::Inner(inner) = &node.body else {
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
    pub(super) fn hook(&self, key: u64, level: u8) -> Result<Option<Hook>, Need> {
        let Some(root) = self.root.filter(|root| root.level >= level) else {
            return Ok(None);
        };
        if root.level == level {
            return Ok(Some(Hook {
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
        Ok(Some(Hook {
            parent: Some((parent, child)),
            slot,
            range: path.range,
        }))
    }

    /// Replaces the location of a node that was loaded or evicted.
    pub(super) fn set_slot(&mut self, hook: &Hook, slot: Slot) {
        match hook.parent {
            Some((parent, child)) => self.nodes.set_slot(parent, child, slot),
            None => self.root.as_mut().expect("it was found at the root").slot = slot,
        }
    }
}

/// Returns the node in a slot, or [`Need`] if it is not in memory.
pub(super) fn loaded(slot: Slot, level: u8, range: Range<u64>) -> Result<NodeId, Need> {
    match slot {
        Slot::Loaded(id) => Ok(id),
        Slot::Medium { place, crc } => Err(Need {
            place,
            crc,
            level,
            range,
        }),
    }
}
