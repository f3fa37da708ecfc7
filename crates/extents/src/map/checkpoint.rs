//! How changed nodes get to the medium.
//!
//! A *freeze* begins a snapshot: the tree as it is at that moment. The snapshot is written node by node, children
//! before their parents, while the map goes on being changed (`writing.rs`); `states.rs` says how a node is kept as it
//! was. No step takes long, however many nodes are changed.
//!
//! A checkpoint supersedes the copies that the checkpoint before reaches and this one does not. These are the old copies
//! of the nodes that this one writes, and those of nodes that left the tree between the two freezes. What happens to
//! the tree while a checkpoint is being written belongs to the next one, even if a node leaves the tree before its copy
//! is complete: that copy is live until the next root counts. So after each checkpoint the live nodes are exactly those
//! that its root reaches, and the roots of the detached subtrees, as a recovery finds them.

use super::nodes::Slot;
use super::nodes::states::NodeState;
use super::writing::Writing;
use super::{Map, Root};
use crate::format::{DetachedRef, RootRef};
use crate::map::Need;
use crate::place::Place;

/// A checkpoint that was written, to be made to count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completed {
    /// The root of the map at the freeze; nothing if nothing was mapped.
    pub root: Option<RootRef>,
    /// The subtrees that were detached then. Without a root, none are.
    pub detached: Vec<DetachedRef>,
    /// The places of the nodes that the roots of the checkpoint before reach and these roots do not.
    pub superseded: Vec<Place>,
}

impl Map {
    /// Begins a snapshot of the map as it is now. Until it is completed or abandoned, call [`Map::next_to_write`] and
    /// [`Map::written`] in turn until all nodes are written. When all are durable, the roots that
    /// [`Map::frozen_roots`] returns may be written, and then the snapshot completed.
    ///
    /// # Panics
    /// If a snapshot is under way.
    pub fn freeze(&mut self) {
        assert!(self.writing.is_none(), "one checkpoint at a time");
        self.drop_hollow();
        match self.detached.is_empty() {
            // The root was kept for the counts.
            true => self.settle_root(),
            // The counts stand with the root, so there has to be one.
            false if self.root.is_none() => self.plant(),
            false => {}
        }
        self.nodes.freeze();
        let roots = self.detached.iter().chain(&self.root);
        let roots = roots.map(|root| self.frozen_root(*root)).collect();
        let dropped = std::mem::take(&mut self.dropped);
        let totals = self.root.map(|_| self.totals);
        self.writing = Some(Box::new(Writing::new(totals, roots, dropped)));
    }

    /// A root as the snapshot has it: its place, if the snapshot does not write it.
    fn frozen_root(&self, root: Root) -> Root {
        let slot = match root.slot {
            Slot::Loaded(id) if self.nodes.state(id) == NodeState::Clean => {
                let (place, crc) = self.nodes.copy(id).expect("a clean node has a copy");
                Slot::Medium { place, crc }
            }
            slot => slot,
        };
        Root { slot, ..root }
    }

    /// The checkpoint is on the medium: nodes that have not changed since the freeze are equal to their copies there.
    ///
    /// # Panics
    /// If no snapshot is under way, or a node of it was not written.
    pub fn complete(&mut self) -> Completed {
        let (root, detached) = self.frozen_roots();
        let writing = self.writing.take().expect("a snapshot is under way");
        self.nodes.complete();
        let Writing {
            superseded,
            mut orphans,
            ..
        } = *writing;
        // The longer list stays where it is.
        if self.dropped.len() < orphans.len() {
            std::mem::swap(&mut self.dropped, &mut orphans);
        }
        self.dropped.append(&mut orphans);
        Completed {
            root,
            detached,
            superseded,
        }
    }

    /// The checkpoint failed: the next one writes the nodes of the snapshot. Takes time in proportion to the nodes that
    /// were set aside.
    ///
    /// # Panics
    /// If no snapshot is under way.
    pub fn abandon(&mut self) {
        let writing = self.writing.take().expect("a snapshot is under way");
        self.dropped.extend(self.nodes.abandon());
        self.dropped.extend(writing.superseded);
    }

    /// If the tree's node of this level that covers `key` lies at this place, the next checkpoint writes it elsewhere:
    /// so a segment of nodes can be emptied. Returns true if the node lies there. If the snapshot under way has yet to
    /// write it elsewhere, that is left to it. Nodes that are detached stay where they are until they are reaped, so
    /// whether a segment is free is told by counts alone.
    ///
    /// # Errors
    /// [`Need`] if a node is not in memory; nothing is changed.
    pub fn redirty(&mut self, level: u8, key: u64, place: Place) -> Result<bool, Need> {
        let home = self.hook(key, level)?.and_then(|hook| match hook.slot {
            Slot::Loaded(id) => self.nodes.copy(id).map(|(home, _)| home),
            Slot::Medium { place, .. } => Some(place),
        });
        if home != Some(place) {
            return Ok(false);
        }
        if let Some(path) = self.find(key, level)?
            && self.nodes.state(path.leaf()) <= NodeState::Written
        {
            self.mark(&path);
        }
        Ok(true)
    }
}
