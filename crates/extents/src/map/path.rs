//! The way from the root to a node.

use std::ops::Range;

use super::nodes::{Body, Inner, NodeId, Slot};
use super::{Map, Root};
use crate::format::LEVELS_MAX;
use crate::place::Place;

/// All sectors that a map can have.
pub(super) const SPACE: Range<u64> = 0..u64::MAX;

/// A node that has to be read and given to [`Map::load`] before something can be done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the map's node of level {level} at place {} is not in memory", place.0)]
pub struct Need {
    /// Where it lies.
    pub place: Place,
    /// The CRC32C that it carries.
    pub crc: u32,
    /// Its level: 0 for a leaf.
    pub level: u8,
    /// The sectors that it covers.
    pub range: Range<u64>,
}

/// A node on the way, and which of its children comes next.
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

/// The way from the root to a node in memory.
pub(super) struct Path {
    steps: [Step; LEVELS_MAX as usize],
    len: usize,
    /// The sectors that the last node covers.
    pub(super) range: Range<u64>,
}

impl Path {
    /// From the root to the node, both included.
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps[..self.len]
    }

    /// The node at its end.
    pub(super) fn leaf(&self) -> NodeId {
        self.steps[self.len - 1].id
    }

    fn push(&mut self, id: NodeId) {
        self.steps[self.len] = Step { id, child: 0 };
        self.len += 1;
    }

    /// Goes on at a child of the last node.
    fn choose(&mut self, inner: &Inner, key: u64) -> Slot {
        let child = inner.child_of(key);
        self.steps[self.len - 1].child = child as u16;
        narrow(&mut self.range, inner, child);
        inner.slots[child]
    }
}

/// From what a node covers to what one of its children does.
pub(super) fn narrow(range: &mut Range<u64>, inner: &Inner, child: usize) {
    if child > 0 {
        range.start = inner.keys[child];
    }
    if let Some(end) = inner.keys.get(child + 1) {
        range.end = *end;
    }
}

/// Where the tree has a node: in memory or not.
pub(super) struct Hook {
    /// Its parent, and which child of that it is; nothing for the root.
    parent: Option<(NodeId, usize)>,
    pub(super) slot: Slot,
    /// The sectors that it covers.
    pub(super) range: Range<u64>,
}

impl Map {
    /// The way to the node of this level that covers `key`; nothing if the tree is not that high.
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

    /// Where the tree has its node of this level that covers `key`; nothing if it is not that high.
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

    /// Replaces where the tree finds a node that is loaded or evicted.
    pub(super) fn set_slot(&mut self, hook: &Hook, slot: Slot) {
        match hook.parent {
            Some((parent, child)) => self.nodes.set_slot(parent, child, slot),
            None => self.root.as_mut().expect("it was found at the root").slot = slot,
        }
    }
}

/// Returns the node of a slot, or what is needed to have it in memory.
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
