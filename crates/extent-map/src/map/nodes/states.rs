//! States of nodes with respect to checkpoints.
//!
//! A freeze ends an *epoch* and begins a snapshot with the epoch's number. The freeze does not change any node: the
//! state of a node follows from the epoch in which it was changed and the snapshot that wrote its copy.
//!
//! | state | the node is | the next snapshot writes it |
//! |---|---|---|
//! | clean | equal to its copy of a completed checkpoint | no |
//! | written | equal to the copy that the snapshot under way has written | no, if this snapshot completes |
//! | frozen | in the snapshot under way, not written, unchanged since the freeze | no, if this snapshot completes |
//! | changed | different from the content that any snapshot writes | yes |
//!
//! A change of a clean or written node makes it a changed node. Before a frozen node is changed or leaves the tree, its
//! state at the freeze is set aside for the snapshot. When the snapshot completes, written nodes become clean. When it
//! is abandoned, frozen and written nodes become changed.

use super::{InnerNode, LoadedNode, NodeBody, NodeIndex, NodeLocation, NodeTable};
use crate::place::LogPlace;

/// The numbers that determine the states of nodes.
#[derive(Clone, Copy)]
pub(in crate::map) struct SnapshotEpochs {
    /// One more than the number of the last snapshot.
    pub(in crate::map) current: u32,
    /// The last completed snapshot; 0 before the first.
    completed: u32,
    /// The snapshot under way, or 0.
    writing: u32,
}

impl Default for SnapshotEpochs {
    fn default() -> SnapshotEpochs {
        SnapshotEpochs {
            current: 1,
            completed: 0,
            writing: 0,
        }
    }
}

/// The state of a node. The order is such that the state of a parent is never less than that of its child.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::map) enum NodeState {
    Clean,
    Written,
    Frozen,
    Changed,
}

/// Counts and memory of nodes by state.
#[derive(Clone, Copy, Default)]
pub(in crate::map) struct NodeCounts {
    pub(in crate::map) changed: usize,
    pub(in crate::map) frozen: usize,
    /// Memory of the bodies of nodes that are not clean, and thus cannot be evicted.
    pub(in crate::map) unclean_bytes: usize,
    /// The part of `unclean_bytes` that belongs to written nodes.
    pub(in crate::map) written_bytes: usize,
    /// Clean nodes that are not in the ring.
    pub(in crate::map) retired: usize,
}

/// A node of the snapshot in its state at the freeze.
pub(in crate::map) struct FrozenNode {
    pub(in crate::map) body: NodeBody,
    pub(in crate::map) level: u8,
    /// The place of its copy in the previous checkpoint.
    pub(in crate::map) place: Option<LogPlace>,
    /// True if the node left the tree.
    pub(in crate::map) gone: bool,
}

impl FrozenNode {
    /// Approximate memory of an entry in the tree of nodes set aside, without its body.
    pub(in crate::map) const BYTES: usize = 2 * size_of::<(NodeIndex, FrozenNode)>();
}

/// The copy of a node that left the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::map) enum LeftoverCopy {
    /// No copy, or a copy whose fate the snapshot under way decides.
    Nothing,
    /// A copy that the next checkpoint supersedes.
    Copy(LogPlace),
    /// A copy that the snapshot under way has written.
    Orphan(LogPlace),
}

impl NodeTable {
    pub(in crate::map) fn state(&self, id: NodeIndex) -> NodeState {
        let (node, epochs) = (self.get(id), &self.epochs);
        debug_assert!(!node.is_free());
        let is_writing = epochs.writing != 0;
        match node.epoch {
            0 if node.written_by <= epochs.completed => NodeState::Clean,
            0 if node.written_by == epochs.writing => NodeState::Written,
            // Otherwise an abandoned snapshot has written the copy, which no node refers to.
            epoch if is_writing && epoch <= epochs.writing => NodeState::Frozen,
            _ => NodeState::Changed,
        }
    }

    pub(in crate::map) fn is_changed(&self, id: NodeIndex) -> bool {
        self.state(id) == NodeState::Changed
    }

    /// Returns the node's copy: the copy of the snapshot under way if it has written one, otherwise that of the
    /// previous checkpoint.
    pub(in crate::map) fn copy(&self, id: NodeIndex) -> Option<(LogPlace, u32)> {
        let (node, epochs) = (self.get(id), &self.epochs);
        let by = node.written_by;
        let is_valid = by <= epochs.completed || by == epochs.writing;
        (is_valid && node.place != LoadedNode::NOWHERE).then_some((node.place, node.crc))
    }

    /// Adds a node that was read from a place.
    pub(in crate::map) fn add_loaded(
        &mut self,
        body: NodeBody,
        level: u8,
        place: LogPlace,
        crc: u32,
    ) -> NodeIndex {
        let mut node = LoadedNode::new(body, level, 0);
        (node.place, node.crc) = (place, crc);
        let id = self.add(node);
        self.clean = self.clean.link(self, id);
        id
    }

    /// Adds a new node.
    pub(in crate::map) fn add_new(&mut self, body: NodeBody, level: u8) -> NodeIndex {
        self.counts.changed += 1;
        self.counts.unclean_bytes += body.bytes();
        self.add(LoadedNode::new(body, level, self.epochs.current))
    }

    /// Marks a node as changed; must be called before it is changed. Returns true if it was not marked yet.
    pub(in crate::map) fn mark(&mut self, id: NodeIndex) -> bool {
        let state = self.state(id);
        if state == NodeState::Changed {
            return false;
        }
        self.leave(id, state);
        if state == NodeState::Frozen {
            let body = self.get(id).body.clone();
            let place = self.copy(id).map(|(place, _)| place);
            let level = self.get(id).level;
            self.set_aside(id, body, level, place);
        }
        self.get_mut(id).epoch = self.epochs.current;
        self.counts.changed += 1;
        self.counts.unclean_bytes += self.get(id).body.bytes();
        true
    }

    /// Removes a clean node from memory. Returns the location of its copy.
    pub(in crate::map) fn evict(&mut self, id: NodeIndex) -> NodeLocation {
        debug_assert!(self.state(id) == NodeState::Clean);
        self.leave(id, NodeState::Clean);
        let LoadedNode { place, crc, .. } = self.take(id);
        self.release(id);
        NodeLocation::Medium { place, crc }
    }

    /// Removes a node that left the tree.
    pub(in crate::map) fn forget(&mut self, id: NodeIndex) -> LeftoverCopy {
        let (state, copy) = (self.state(id), self.copy(id));
        let is_orphan = self.get(id).written_by == self.epochs.writing;
        self.leave(id, state);
        let LoadedNode { body, level, .. } = self.take(id);
        if state == NodeState::Frozen {
            self.set_aside(id, body, level, copy.map(|(place, _)| place));
        }
        if let Some(aside) = self.aside.get_mut(&id) {
            aside.gone = true;
            return LeftoverCopy::Nothing;
        }
        self.release(id);
        match copy {
            Some((place, _)) if is_orphan && self.epochs.writing != 0 => {
                LeftoverCopy::Orphan(place)
            }
            Some((place, _)) => LeftoverCopy::Copy(place),
            None => LeftoverCopy::Nothing,
        }
    }

    /// Moves a node to the first free slot while no snapshot is under way. Returns its new id.
    pub(in crate::map) fn compact(&mut self, id: NodeIndex) -> NodeIndex {
        let is_clean = self.state(id) == NodeState::Clean && !self.get(id).retired;
        if is_clean {
            self.clean = self.clean.unlink(self, id);
        }
        let to = self.relocate(id);
        if is_clean {
            self.clean = self.clean.link(self, to);
        }
        to
    }

    /// Removes a clean node from the clock.
    pub(in crate::map) fn retire(&mut self, id: NodeIndex) {
        self.leave(id, NodeState::Clean);
        self.get_mut(id).retired = true;
        self.counts.retired += 1;
    }

    /// Removes a node from the ring and the counts of its state.
    fn leave(&mut self, id: NodeIndex, state: NodeState) {
        let bytes = self.get(id).body.bytes();
        if state != NodeState::Clean {
            self.counts.unclean_bytes -= bytes;
        }
        match state {
            NodeState::Clean if self.get(id).retired => {
                self.get_mut(id).retired = false;
                self.counts.retired -= 1;
            }
            NodeState::Clean => self.clean = self.clean.unlink(self, id),
            NodeState::Written => {
                self.counts.written_bytes -= bytes;
                self.written = self.written.unlink(self, id);
            }
            NodeState::Frozen => self.counts.frozen -= 1,
            NodeState::Changed => self.counts.changed -= 1,
        }
    }

    /// Sets aside a frozen node in its state at the freeze. Children that the snapshot does not write are referred to
    /// by place, since their ids may be reused before the snapshot ends.
    fn set_aside(&mut self, id: NodeIndex, mut body: NodeBody, level: u8, place: Option<LogPlace>) {
        if let NodeBody::Inner(inner) = &mut body {
            self.name_by_places(inner);
        }
        self.aside_bytes += body.bytes();
        let gone = false;
        let aside = FrozenNode {
            body,
            level,
            place,
            gone,
        };
        self.aside.insert(id, aside);
    }

    fn name_by_places(&self, inner: &mut InnerNode) {
        for slot in &mut inner.slots {
            if let Some(id) = slot.id()
                && !self.is_unwritten(id)
            {
                let (place, crc) = self.copy(id).expect("a child that the snapshot has");
                *slot = NodeLocation::Medium { place, crc };
            }
        }
    }

    /// Returns true if a node belongs to the snapshot under way and is not written yet.
    pub(in crate::map) fn is_unwritten(&self, id: NodeIndex) -> bool {
        self.aside.contains_key(&id) || self.state(id) == NodeState::Frozen
    }

    /// Returns a node of the snapshot in its state at the freeze, and its level.
    pub(in crate::map) fn frozen(&self, id: NodeIndex) -> (&NodeBody, u8) {
        let aside = self.aside.get(&id);
        aside.map_or_else(
            || (&self.get(id).body, self.get(id).level),
            |aside| (&aside.body, aside.level),
        )
    }

    /// Records that the snapshot has written a node. Returns the place of the previous checkpoint's copy, and true if
    /// the node has left the tree meanwhile.
    pub(in crate::map) fn written(
        &mut self,
        id: NodeIndex,
        place: LogPlace,
        crc: u32,
    ) -> (Option<LogPlace>, bool) {
        let by = self.epochs.writing;
        let (before, gone) = if let Some(aside) = self.aside.remove(&id) {
            self.aside_bytes -= aside.body.bytes();
            (aside.place, aside.gone)
        } else {
            let before = self.copy(id).map(|(place, _)| place);
            self.leave(id, NodeState::Frozen);
            self.get_mut(id).epoch = 0;
            self.written = self.written.link(self, id);
            let bytes = self.get(id).body.bytes();
            self.counts.unclean_bytes += bytes;
            self.counts.written_bytes += bytes;
            (before, false)
        };
        if gone {
            self.release(id);
        } else {
            let node = self.get_mut(id);
            (node.place, node.crc, node.written_by) = (place, crc, by);
        }
        (before, gone)
    }

    /// Stores the place of a written node in its parent, if the parent was set aside.
    pub(in crate::map) fn place_child(
        &mut self,
        parent: NodeIndex,
        child: usize,
        place: LogPlace,
        crc: u32,
    ) {
        if let Some(aside) = self.aside.get_mut(&parent)
            && let NodeBody::Inner(inner) = &mut aside.body
        {
            inner.slots[child] = NodeLocation::Medium { place, crc };
        }
    }

    /// Begins a snapshot.
    pub(in crate::map) fn freeze(&mut self) {
        self.epochs.writing = self.epochs.current;
        self.epochs.current += 1;
        self.counts.frozen = std::mem::take(&mut self.counts.changed);
    }

    /// Ends the snapshot under way, all of whose nodes are written.
    pub(in crate::map) fn complete(&mut self) {
        self.epochs.completed = std::mem::take(&mut self.epochs.writing);
        let written = std::mem::take(&mut self.written);
        self.counts.unclean_bytes -= std::mem::take(&mut self.counts.written_bytes);
        self.clean = self.clean.append(self, written);
    }

    /// Ends the snapshot under way without completing it; the next snapshot writes its nodes. Returns the previous
    /// checkpoint's copies of nodes that left the tree.
    pub(in crate::map) fn abandon(&mut self) -> Vec<LogPlace> {
        self.epochs.writing = 0;
        let written = std::mem::take(&mut self.written);
        self.counts.changed += std::mem::take(&mut self.counts.frozen) + written.len();
        self.counts.written_bytes = 0;
        let mut dropped = Vec::new();
        for (id, aside) in std::mem::take(&mut self.aside) {
            if aside.gone {
                dropped.extend(aside.place);
                self.release(id);
            }
        }
        self.aside_bytes = 0;
        dropped
    }
}
