//! Unmapping of huge ranges without reading all of their leaves.
//!
//! The subtrees that cover nothing but the range are cut out of the tree. They are few, regardless of the length of the
//! range. Later, they are reaped: their nodes are read one by one, and their extents reported as removed. Until then,
//! they are part of the map: checkpoints write their nodes and store their roots, and their sectors, entries and nodes
//! are counted.

use std::ops::Range;

use super::nodes::{InnerNode, NodeBody, NodeIndex, NodeLocation};
use super::path::{NodePath, PathStep, SPACE, loaded};
use super::{ExtentMap, NeededNode, RangePins, TreeRoot};
use crate::extent::MapChanges;

impl ExtentMap {
    /// Returns the number of detached subtrees that are not completely reaped.
    pub fn detached(&self) -> usize {
        self.detached.len()
    }

    /// Unmaps `range` like [`ExtentMap::clear`], but needs only its first and last leaves and their parents. The effects in
    /// these leaves are appended to `changes`; [`ExtentMap::reap`] reports the others. Each call detaches at most two
    /// subtrees for each level of the tree.
    ///
    /// # Errors
    /// [`NeededNode`] if a node is not in memory; nothing is changed.
    pub fn detach(
        &mut self,
        range: Range<u64>,
        changes: &mut MapChanges,
    ) -> Result<(), NeededNode> {
        if range.is_empty() {
            return Ok(());
        }
        let ends = (self.find(range.start, 0)?, self.find(range.end - 1, 0)?);
        if let (Some(left), Some(right)) = ends
            && left.leaf() != right.leaf()
        {
            self.cut_between(&left, &right);
            self.clear(range.clone(), changes)?;
            self.settle_after_cut(range.start);
            self.settle_after_cut(range.end - 1);
            return Ok(());
        }
        self.clear(range, changes)
    }

    /// Pins the nodes that [`ExtentMap::detach`] needs, like [`ExtentMap::prepare`].
    ///
    /// # Errors
    /// As [`ExtentMap::prepare`].
    pub fn prepare_ends(
        &mut self,
        range: Range<u64>,
        pins: &mut RangePins,
    ) -> Result<(), NeededNode> {
        if range.is_empty() {
            return Ok(());
        }
        self.prepare(range.start..range.start + 1, pins)?;
        self.prepare(range.end - 1..range.end, pins)
    }

    /// Reaps one node of the detached subtrees: appends its extents to the removed extents. Returns false if no subtree
    /// is detached.
    ///
    /// # Errors
    /// [`NeededNode`] if the node is not in memory.
    pub fn reap(&mut self, changes: &mut MapChanges) -> Result<bool, NeededNode> {
        let Some(TreeRoot { slot, level }) = self.detached.last().copied() else {
            return Ok(false);
        };
        let id = loaded(slot, level, SPACE)?;
        let left = match &self.nodes.get(id).body {
            NodeBody::Leaf(leaf) => {
                let gone: u64 = leaf.extents().map(|extent| extent.sectors).sum();
                changes.gone.extend(leaf.leaf_extents());
                let (totals, entries) = (&mut self.totals, leaf.len() as u64);
                totals.sectors = totals.sectors.saturating_sub(gone);
                totals.entries = totals.entries.saturating_sub(entries);
                0
            }
            NodeBody::Inner(_) => self.hand_over(id, level),
        };
        if left == 0 {
            // If the node had a last child, the child now follows it in the list.
            let at = self
                .detached
                .iter()
                .rposition(|root| root.slot.id() == Some(id));
            self.detached
                .remove(at.expect("the node is a detached root"));
            self.forget(slot);
        }
        Ok(true)
    }

    /// Drops a detached subtree whose root node, given by `need`, is damaged, so that its content is lost. The next
    /// checkpoint supersedes the node. The nodes and extents below it are unknown, so the counts of the map stay too
    /// high: see [`ExtentMap::is_exact`]. Returns false, and changes nothing, if `need` is not the missing root node of a
    /// detached subtree.
    pub fn abandon_detached(&mut self, need: &NeededNode) -> bool {
        let (place, crc) = (need.place, need.crc);
        let missing = NodeLocation::Medium { place, crc };
        let is_it = |root: &TreeRoot| root.slot == missing && root.level == need.level;
        let Some(at) = self.detached.iter().position(is_it) else {
            return false;
        };
        self.detached.remove(at);
        self.dropped.push(place);
        self.totals.nodes = self.totals.nodes.saturating_sub(1);
        self.exact = false;
        true
    }

    /// Makes the last child of a detached node a detached subtree of its own. Returns the number of remaining children.
    fn hand_over(&mut self, id: NodeIndex, level: u8) -> usize {
        self.nodes.mark(id);
        let (slot, left) = self.nodes.edit_inner(id, |inner| {
            let slot = inner.remove(inner.len() - 1);
            (slot, inner.len())
        });
        let level = level - 1;
        self.detached.push(TreeRoot { slot, level });
        left
    }

    /// Detaches all nodes between two leaves.
    fn cut_between(&mut self, left: &NodePath, right: &NodePath) {
        for path in [left, right] {
            self.mark_steps(inner_steps(path, 0));
        }
        let pairs = left.steps().iter().zip(right.steps());
        let alike = |(one, other): &(&PathStep, &PathStep)| one.child == other.child;
        let fork = pairs.take_while(alike).count();
        let both = (left.steps()[fork], right.steps()[fork]);
        self.cut(both.0.id, both.0.child() + 1..both.1.child());
        for step in inner_steps(left, fork + 1) {
            let end = self.nodes.inner(step.id).len();
            self.cut(step.id, step.child() + 1..end);
        }
        for step in inner_steps(right, fork + 1) {
            self.cut(step.id, 0..step.child());
        }
    }

    /// Detaches some children of a node: a single child as it is, several children under a new node.
    fn cut(&mut self, id: NodeIndex, children: Range<usize>) {
        if children.is_empty() {
            return;
        }
        let level = self.nodes.get(id).level;
        let run = self.nodes.edit_inner(id, |inner| inner.take(children));
        let root = match run.slots[..] {
            [slot] => TreeRoot {
                slot,
                level: level - 1,
            },
            _ => TreeRoot {
                slot: self.grown(NodeBody::Inner(Box::new(run)), level),
                level,
            },
        };
        self.detached.push(root);
    }

    /// Rebalances the nodes above a sector that lost children, from the root down, since joining two nodes makes their
    /// children neighbours.
    fn settle_after_cut(&mut self, sector: u64) {
        let mut depth = 1;
        // If the sector's leaf was dropped, the leaf that now covers the sector may not be in memory, but it lost no
        // children.
        while let Ok(Some(path)) = self.find(sector, 0)
            && depth + 1 < path.steps().len()
        {
            self.mark_steps(inner_steps(&path, 0));
            let steps = &path.steps()[..=depth];
            // Only inner nodes are joined, so no extent moves to another leaf.
            depth = if self.settle_at(steps, &mut MapChanges::default()) {
                1.max(depth - 1)
            } else {
                depth + 1
            };
        }
        self.settle_root();
    }
}

/// Returns the inner nodes of a path to a leaf, from this depth on.
fn inner_steps(path: &NodePath, depth: usize) -> &[PathStep] {
    let steps = path.steps();
    &steps[depth..steps.len() - 1]
}

impl InnerNode {
    /// Moves some children into a new node.
    fn take(&mut self, children: Range<usize>) -> InnerNode {
        let run = InnerNode {
            keys: self.keys.drain(children.clone()).collect(),
            slots: self.slots.drain(children).collect(),
        };
        self.keys.shrink_to_fit();
        self.slots.shrink_to_fit();
        run
    }
}
