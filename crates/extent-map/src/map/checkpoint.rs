//! Checkpoints: writing changed nodes to the device.
//!
//! A *freeze* begins a snapshot of the tree. The snapshot is written node by node, children before their parents, while
//! the map is changed further (`writing.rs`). `states.rs` describes how the frozen state of a node is kept. No step
//! takes long, even with many changed nodes.
//!
//! A checkpoint supersedes the copies that are reachable from the previous checkpoint and not from this checkpoint.
//! These are the old copies of the nodes that it writes, and the copies of nodes that left the tree between the two
//! freezes. Changes of the tree during a checkpoint belong to the next checkpoint. This includes a node that leaves the
//! tree before its copy is complete: the copy is live until the next root is valid. So after each checkpoint, the live
//! nodes are exactly those reachable from its root and from the roots of the detached subtrees, as recovery finds them.

use super::nodes::NodeLocation;
use super::nodes::states::NodeState;
use super::writing::ActiveSnapshot;
use super::{ExtentMap, TreeRoot};
use crate::format::{DetachedRef, RootRef};
use crate::map::NeededNode;
use crate::place::LogPlace;

/// A checkpoint whose nodes are written, and whose roots the caller makes valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompletedCheckpoint {
    /// The root of the map at the freeze; `None` if the map was empty.
    pub root: Option<RootRef>,
    /// The subtrees that were detached at the freeze. Empty without a root.
    pub detached: Vec<DetachedRef>,
    /// Places of nodes that are reachable from the previous checkpoint but not from these roots.
    pub superseded: Vec<LogPlace>,
}

impl ExtentMap {
    /// Begins a snapshot of the map. Then the caller calls [`ExtentMap::next_to_write`] and [`ExtentMap::written`] in turn until
    /// all nodes are written. When all nodes are durable, the caller may write the roots that [`ExtentMap::frozen_roots`]
    /// returns, and then complete the snapshot.
    ///
    /// # Panics
    /// If a snapshot is under way.
    pub fn freeze(&mut self) {
        assert!(self.writing.is_none(), "one checkpoint at a time");
        self.drop_hollow();
        if self.detached.is_empty() {
            // The root was kept only for the counts.
            self.settle_root();
        } else if self.root.is_none() {
            // The counts are stored with the root, so a root is required.
            self.plant();
        }
        self.nodes.freeze();
        let roots = self.detached.iter().chain(&self.root);
        let roots = roots.map(|root| self.frozen_root(*root)).collect();
        let dropped = std::mem::take(&mut self.dropped);
        let totals = self.root.map(|_| self.totals);
        self.writing = Some(Box::new(ActiveSnapshot::new(totals, roots, dropped)));
    }

    /// Returns a root as the snapshot contains it: by place, if the snapshot does not write the node.
    fn frozen_root(&self, root: TreeRoot) -> TreeRoot {
        let slot = match root.slot {
            NodeLocation::Loaded(id) if self.nodes.state(id) == NodeState::Clean => {
                let (place, crc) = self.nodes.copy(id).expect("a clean node has a copy");
                NodeLocation::Medium { place, crc }
            }
            slot => slot,
        };
        TreeRoot { slot, ..root }
    }

    /// Completes the snapshot, whose checkpoint is on the device. Nodes that have not changed since the freeze are now
    /// equal to their copies.
    ///
    /// # Panics
    /// If no snapshot is under way, or a node of it was not written.
    pub fn complete(&mut self) -> CompletedCheckpoint {
        let (root, detached) = self.frozen_roots();
        let writing = self.writing.take().expect("a snapshot is under way");
        self.nodes.complete();
        let ActiveSnapshot {
            superseded,
            mut orphans,
            ..
        } = *writing;
        // Keeps the longer list in place.
        if self.dropped.len() < orphans.len() {
            std::mem::swap(&mut self.dropped, &mut orphans);
        }
        self.dropped.append(&mut orphans);
        CompletedCheckpoint {
            root,
            detached,
            superseded,
        }
    }

    /// Abandons the snapshot after a failed checkpoint. The next checkpoint writes its nodes. Takes time in proportion
    /// to the nodes that were set aside.
    ///
    /// # Panics
    /// If no snapshot is under way.
    pub fn abandon(&mut self) {
        let writing = self.writing.take().expect("a snapshot is under way");
        self.dropped.extend(self.nodes.abandon());
        self.dropped.extend(writing.superseded);
    }

    /// Causes the next checkpoint to write a node elsewhere, if the tree's node of this level that covers `key` lies at
    /// `place`. So a segment of nodes can be emptied. Returns true if the node lies there. If the snapshot under way
    /// has yet to write the node elsewhere, nothing else is done. Detached nodes stay at their places until they are
    /// reaped, so only the counts show whether a segment is free.
    ///
    /// # Errors
    /// [`NeededNode`] if a node is not in memory; nothing is changed.
    pub fn redirty(&mut self, level: u8, key: u64, place: LogPlace) -> Result<bool, NeededNode> {
        let home = self.hook(key, level)?.and_then(|hook| match hook.slot {
            NodeLocation::Loaded(id) => self.nodes.copy(id).map(|(home, _)| home),
            NodeLocation::Medium { place, .. } => Some(place),
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
