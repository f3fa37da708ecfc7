//! How a huge range is unmapped without looking at all its leaves.
//!
//! What covers nothing but the range is cut out of the tree, a few subtrees however long the range is, and
//! is looked at later, node by node, for what died. Until then it is a part of the map all the same:
//! checkpoints write it and keep its roots, and its sectors, entries and nodes count.

use std::ops::Range;

use super::nodes::{Body, Inner, NodeId, Slot};
use super::path::{Path, SPACE, Step, loaded};
use super::{Map, Need, Pins, Root};
use crate::extent::Changes;

impl Map {
    /// How many subtrees are detached and were not looked at to their end.
    pub fn detached(&self) -> usize {
        self.detached.len()
    }

    /// Unmaps `range` as [`Map::clear`] does, but needs its first and its last leaf only, and what is above
    /// them. What that changes in these is added to `changes`; the rest is told by [`Map::reap`]. Each time,
    /// at most two subtrees for each level of the tree are detached.
    ///
    /// # Errors
    /// [`Need`] if a node is not in memory; nothing is changed.
    pub fn detach(&mut self, range: Range<u64>, changes: &mut Changes) -> Result<(), Need> {
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

    /// As [`Map::prepare`], for [`Map::detach`].
    ///
    /// # Errors
    /// [`Need`] if a node is not in memory, as there.
    pub fn prepare_ends(&mut self, range: Range<u64>, pins: &mut Pins) -> Result<(), Need> {
        if range.is_empty() {
            return Ok(());
        }
        self.prepare(range.start..range.start + 1, pins)?;
        self.prepare(range.end - 1..range.end, pins)
    }

    /// Looks at one node of what was detached, and adds the extents in it to those that are gone. Says whether there was
    /// one.
    ///
    /// # Errors
    /// [`Need`] if it is not in memory.
    pub fn reap(&mut self, changes: &mut Changes) -> Result<bool, Need> {
        let Some(Root { slot, level }) = self.detached.last().copied() else {
            return Ok(false);
        };
        let id = loaded(slot, level, SPACE)?;
        let left = match &self.nodes.get(id).body {
            Body::Leaf(leaf) => {
                let gone: u64 = leaf.extents().map(|extent| extent.sectors).sum();
                changes.gone.extend(leaf.leaf_extents());
                let (totals, entries) = (&mut self.totals, leaf.len() as u64);
                totals.sectors = totals.sectors.saturating_sub(gone);
                totals.entries = totals.entries.saturating_sub(entries);
                0
            }
            _ => self.hand_over(id, level),
        };
        if left == 0 {
            // Below it stands the child that was handed over, if there was one.
            let at = self
                .detached
                .iter()
                .rposition(|root| root.slot.id() == Some(id));
            self.detached
                .remove(at.expect("it was the last but for its child"));
            self.forget(slot);
        }
        Ok(true)
    }

    /// Drops a detached subtree whose root node, which `need` names, is damaged, so that its contents can never be known.
    /// The next checkpoint supersedes the node. Of the nodes and extents below it nothing is known, so the counts of the
    /// map stay too high: see [`Map::is_exact`]. Returns false, and does nothing, if the root node of no detached subtree
    /// is missing there.
    pub fn abandon_detached(&mut self, need: &Need) -> bool {
        let (place, crc) = (need.place, need.crc);
        let missing = Slot::Medium { place, crc };
        let is_it = |root: &Root| root.slot == missing && root.level == need.level;
        let Some(at) = self.detached.iter().position(is_it) else {
            return false;
        };
        self.detached.remove(at);
        self.dropped.push(place);
        self.totals.nodes = self.totals.nodes.saturating_sub(1);
        self.exact = false;
        true
    }

    /// The last child of a detached node becomes a detached subtree itself. Says how many it has left.
    fn hand_over(&mut self, id: NodeId, level: u8) -> usize {
        self.nodes.mark(id);
        let (slot, left) = self.nodes.edit_inner(id, |inner| {
            let slot = inner.remove(inner.len() - 1);
            (slot, inner.len())
        });
        let level = level - 1;
        self.detached.push(Root { slot, level });
        left
    }

    /// Detaches all that lies between two leaves.
    fn cut_between(&mut self, left: &Path, right: &Path) {
        for path in [left, right] {
            self.mark_steps(inner_steps(path, 0));
        }
        let pairs = left.steps().iter().zip(right.steps());
        let alike = |(one, other): &(&Step, &Step)| one.child == other.child;
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

    /// Detaches some children of a node: one as it is, more as a node of their own.
    fn cut(&mut self, id: NodeId, children: Range<usize>) {
        if children.is_empty() {
            return;
        }
        let level = self.nodes.get(id).level;
        let run = self.nodes.edit_inner(id, |inner| inner.take(children));
        let root = match run.slots[..] {
            [slot] => Root {
                slot,
                level: level - 1,
            },
            _ => Root {
                slot: self.grown(Body::Inner(Box::new(run)), level),
                level,
            },
        };
        self.detached.push(root);
    }

    /// Has the nodes above a sector that lost children share with their neighbours. From the top, since
    /// nodes come to be neighbours when those above them are joined.
    fn settle_after_cut(&mut self, sector: u64) {
        let mut depth = 1;
        // If its leaf was dropped, the one that has the sector now may not be in memory, and lost nothing.
        while let Ok(Some(path)) = self.find(sector, 0)
            && depth + 1 < path.steps().len()
        {
            self.mark_steps(inner_steps(&path, 0));
            let steps = &path.steps()[..=depth];
            // Inner nodes only, so no extent changes its leaf.
            depth = match self.settle_at(steps, &mut Changes::default()) {
                true => 1.max(depth - 1),
                false => depth + 1,
            };
        }
        self.settle_root();
    }
}

/// The inner nodes of a path that leads to a leaf, from the one at this depth on.
fn inner_steps(path: &Path, depth: usize) -> &[Step] {
    let steps = path.steps();
    &steps[depth..steps.len() - 1]
}

impl Inner {
    /// Takes some children out, into a node of their own.
    fn take(&mut self, children: Range<usize>) -> Inner {
        let run = Inner {
            keys: self.keys.drain(children.clone()).collect(),
            slots: self.slots.drain(children).collect(),
        };
        self.keys.shrink_to_fit();
        self.slots.shrink_to_fit();
        run
    }
}
