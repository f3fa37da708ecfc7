//! Splitting of full nodes, and joining or dropping of nodes with few entries.

use super::leaf::{LeafChange, LeafEnd, LeafNode, middle, note_behind};
use super::nodes::states::LeftoverCopy;
use super::nodes::{InnerNode, NodeBody, NodeIndex, NodeLocation};
use super::path::{NodePath, PathStep};
use super::{ExtentMap, TreeRoot};
use crate::extent::{MapChanges, MapExtent};
use crate::format::LEVELS_MAX;

impl ExtentMap {
    /// Creates the first leaf, which is empty.
    pub(super) fn plant(&mut self) {
        let leaf = LeafNode::of(&[], 0).expect("an empty leaf always fits");
        let slot = self.grown(NodeBody::Leaf(leaf), 0);
        self.root = Some(TreeRoot { slot, level: 0 });
    }

    /// Adds a new node.
    pub(super) fn grown(&mut self, body: NodeBody, level: u8) -> NodeLocation {
        self.totals.nodes = self.totals.nodes.saturating_add(1);
        NodeLocation::Loaded(self.nodes.add_new(body, level))
    }

    /// Makes space in the leaf at the path's end for `change`, which begins at `sector`: entries move to a neighbour
    /// with free space, or the leaf is split. So leaves are four fifths full in the long run, rather than ln 2. A
    /// change behind all entries, as when a space is filled from front to back, gets a new leaf, and the old leaf stays
    /// full.
    pub(super) fn split_for(
        &mut self,
        path: &NodePath,
        change: &LeafChange,
        sector: u64,
        changes: &mut MapChanges,
    ) {
        let leaf = self.nodes.leaf(path.leaf());
        let is_full = leaf.encoded_with(change) > self.shape.leaf_bytes();
        let end = change.is_at_end(leaf);
        if is_full && end.is_none() && self.relieve(path, changes) {
            return;
        }
        let leaf = self.nodes.leaf(path.leaf());
        let (at, first) = match end {
            Some(LeafEnd::Last) => (leaf.len(), sector),
            Some(LeafEnd::First) if !is_full => (0, leaf.key(0)),
            _ => (leaf.middle(), leaf.key(leaf.middle())),
        };
        self.mark(path);
        let right = self.nodes.edit_leaf(path.leaf(), |leaf| leaf.split_off(at));
        let slot = self.grown(NodeBody::Leaf(right), 0);
        self.insert_child(path.steps(), first, slot);
    }

    /// Moves entries of the full leaf at the path's end to a neighbour in memory, unless the neighbour is nearly full
    /// as well.
    fn relieve(&mut self, path: &NodePath, changes: &mut MapChanges) -> bool {
        let (leaf, above) = path.steps().split_last().expect("the path has a node");
        if above.is_empty() {
            return false;
        }
        // With a fuller neighbour, the change might not fit afterwards either.
        let most = (self.room(0) / 8 * 7).min(self.room(0).saturating_sub(8));
        for (left, one, other) in self.pairs(above) {
            let neighbour = if one == leaf.id { other } else { one };
            let fill = self.nodes.get(neighbour).body.fill();
            if (1..=most).contains(&fill) {
                self.mark(path);
                self.rekey(above);
                return self.pour(above[above.len() - 1].id, left, true, changes);
            }
        }
        false
    }

    /// Returns the pairs of the chosen child of the last step and each of its neighbours in memory: the left node's
    /// index in the parent, and both nodes.
    fn pairs(&self, steps: &[PathStep]) -> Vec<(usize, NodeIndex, NodeIndex)> {
        let parent = steps[steps.len() - 1];
        let (inner, child) = (self.nodes.inner(parent.id), parent.child());
        let lefts = [child.checked_sub(1), Some(child)].into_iter().flatten();
        let pairs = lefts.filter_map(|left| {
            let (one, other) = (inner.slots[left], inner.slots.get(left + 1)?);
            Some((left, one.id()?, other.id()?))
        });
        pairs.collect()
    }

    /// Sets the first key of the last step's node to the first sector that the node covers.
    fn rekey(&mut self, steps: &[PathStep]) {
        let (parent, start) = (steps[steps.len() - 1], self.start(steps));
        let rekey = |inner: &mut InnerNode| inner.keys[0] = start;
        self.nodes.edit_inner(parent.id, rekey);
    }

    /// Inserts a node that was split off behind the node at the end of `steps`.
    fn insert_child(&mut self, steps: &[PathStep], first: u64, slot: NodeLocation) {
        let (_, above) = steps.split_last().expect("the path has a node");
        let Some(parent) = above.last() else {
            return self.grow(first, slot);
        };
        let (at, most) = (parent.child() + 1, self.shape.inner);
        let start = self.start(above);
        let right = self.nodes.edit_inner(parent.id, |inner| {
            inner.keys[0] = start;
            inner.insert(at, first, slot);
            let len = inner.len();
            let cut = if at + 1 == len { at } else { len / 2 };
            (len > most).then(|| inner.split_off(cut))
        });
        if let Some(right) = right {
            let (first, level) = (right.keys[0], self.nodes.get(parent.id).level);
            let slot = self.grown(NodeBody::Inner(Box::new(right)), level);
            self.insert_child(above, first, slot);
        }
    }

    /// Returns the first sector that the last step's node covers. The node's first key may be larger, since the node's
    /// range may have grown while it was not in memory.
    pub(super) fn start(&self, steps: &[PathStep]) -> u64 {
        let above = steps.iter().rev().skip(1);
        let start = above
            .filter(|step| step.child > 0)
            .map(|step| self.nodes.inner(step.id).keys[step.child()]);
        start.into_iter().next().unwrap_or(0)
    }

    /// Adds a new root above the old root and the node beside it.
    fn grow(&mut self, first: u64, slot: NodeLocation) {
        let old = self.root.expect("a root was split");
        let level = old.level + 1;
        assert!(level < LEVELS_MAX, "a map of {level} levels");
        let mut inner = InnerNode::default();
        inner.insert(0, 0, old.slot);
        inner.insert(1, first, slot);
        let slot = self.grown(NodeBody::Inner(Box::new(inner)), level);
        self.root = Some(TreeRoot { slot, level });
    }

    /// Rebalances after the leaf at the path's end became smaller. Empty nodes are dropped, and nodes with few entries
    /// are joined with a neighbour in memory. The nodes on the path are already marked as changed.
    pub(super) fn settle(&mut self, path: &NodePath, changes: &mut MapChanges) {
        let is_empty = self.nodes.leaf(path.leaf()).len() == 0;
        if is_empty && self.pinned(&path.range) && !self.has_heir(path.steps()) {
            self.hollow.push(path.range.start);
            return;
        }
        for depth in (1..path.steps().len()).rev() {
            if !self.settle_at(&path.steps()[..=depth], changes) {
                return;
            }
        }
        self.settle_root();
    }

    /// Drops empty leaves that were kept, unless they are still pinned.
    pub(super) fn drop_hollow(&mut self) {
        for sector in std::mem::take(&mut self.hollow) {
            if let Ok(Some(path)) = self.find(sector, 0)
                && self.nodes.leaf(path.leaf()).len() == 0
            {
                self.mark(&path);
                // The leaf is dropped, so no extent moves to another leaf.
                self.settle(&path, &mut MapChanges::default());
            }
        }
    }

    /// As [`ExtentMap::settle`], for the last step's node only. Returns true if its parent has lost a child.
    pub(super) fn settle_at(&mut self, steps: &[PathStep], changes: &mut MapChanges) -> bool {
        let (last, above) = steps.split_last().expect("the path has a node");
        let parent = above.last().expect("a node that is not the root");
        let node = self.nodes.get(last.id);
        match node.body.fill() {
            0 => {
                let child = parent.child();
                let slot = self
                    .nodes
                    .edit_inner(parent.id, |inner| inner.remove(child));
                self.forget(slot);
                true
            }
            fill => fill < self.room(node.level) / 3 && self.share(above, changes),
        }
    }

    /// Returns true if the leaf that would inherit the sectors of the last step's node is in memory, or if no other
    /// node would remain.
    fn has_heir(&self, steps: &[PathStep]) -> bool {
        let above = steps.iter().rev().skip(1);
        let mut brothers = above.filter(|step| self.nodes.inner(step.id).len() > 1);
        let Some(parent) = brothers.next() else {
            return true;
        };
        let (inner, child) = (self.nodes.inner(parent.id), parent.child());
        let mut slot = inner.slots[if child > 0 { child - 1 } else { 1 }];
        while let Some(id) = slot.id() {
            let NodeBody::Inner(inner) = &self.nodes.get(id).body else {
                return true;
            };
            slot = inner.slots[if child > 0 { inner.len() - 1 } else { 0 }];
        }
        false
    }

    /// Removes a root without children, and replaces a root with one child by the child.
    pub(super) fn settle_root(&mut self) {
        while let Some(root) = self.root
            && let Some(id) = root.slot.id()
        {
            self.root = match &self.nodes.get(id).body {
                body if body.len() == 0 => None,
                NodeBody::Inner(inner) if inner.len() == 1 => Some(TreeRoot {
                    slot: inner.slots[0],
                    level: root.level - 1,
                }),
                _ => return,
            };
            self.forget(root.slot);
        }
    }

    /// Records that a node left the tree.
    pub(super) fn forget(&mut self, slot: NodeLocation) {
        let id = slot.id().expect("only nodes in memory leave the tree");
        self.totals.nodes = self.totals.nodes.saturating_sub(1);
        match (self.nodes.forget(id), &mut self.writing) {
            (LeftoverCopy::Orphan(place), Some(writing)) => writing.orphans.push(place),
            (LeftoverCopy::Copy(place) | LeftoverCopy::Orphan(place), _) => {
                self.dropped.push(place);
            }
            (LeftoverCopy::Nothing, _) => {}
        }
    }

    /// Returns the limit of [`NodeBody::fill`] for a node of this level.
    fn room(&self, level: u8) -> usize {
        match level {
            0 => self.shape.leaf,
            _ => self.shape.inner,
        }
    }

    /// Joins the chosen child of the last step with a neighbour. If no neighbour has enough space, entries are balanced
    /// between the child and a neighbour. Returns true if a node was removed.
    fn share(&mut self, steps: &[PathStep], changes: &mut MapChanges) -> bool {
        let parent = steps[steps.len() - 1];
        self.rekey(steps);
        let pairs = self.pairs(steps);
        for &(left, one, other) in &pairs {
            let (one, other) = (self.nodes.get(one), self.nodes.get(other));
            let fill = one.body.fill() + other.body.fill();
            // The joined node is not quite full; otherwise the next entry would split it again.
            if fill <= self.room(one.level) / 4 * 3 && self.pour(parent.id, left, false, changes) {
                return true;
            }
        }
        for (left, one, other) in pairs {
            let [one, other] = [one, other].map(|id| self.nodes.get(id).body.fill());
            if one.abs_diff(other) > 1 && self.pour(parent.id, left, true, changes) {
                break;
            }
        }
        false
    }

    /// Moves the entries of the child `left` of `parent` and of its right neighbour into the first of the two, or
    /// distributes them `evenly`. Returns false, and changes nothing, if entries would be too far apart for one leaf.
    fn pour(
        &mut self,
        parent: NodeIndex,
        left: usize,
        evenly: bool,
        changes: &mut MapChanges,
    ) -> bool {
        let inner = self.nodes.inner(parent);
        let between = inner.keys[left + 1];
        let [one, other] = [left, left + 1].map(|at| inner.slots[at].id().expect("in memory"));
        let poured = match &self.nodes.get(one).body {
            NodeBody::Leaf(_) => self.pour_leaves(one, other, evenly, changes),
            NodeBody::Inner(_) => Some(self.pour_inner(one, other, between, evenly)),
        };
        let Some(first) = poured else {
            return false;
        };
        if let Some(first) = first {
            let rekey = |inner: &mut InnerNode| inner.keys[left + 1] = first;
            self.nodes.edit_inner(parent, rekey);
        } else {
            let slot = self
                .nodes
                .edit_inner(parent, |inner| inner.remove(left + 1));
            self.forget(slot);
        }
        true
    }

    /// Returns the first key of the second leaf, or `Some(None)` if that leaf is now empty. Returns `None` if the
    /// entries are too far apart.
    fn pour_leaves(
        &mut self,
        one: NodeIndex,
        other: NodeIndex,
        evenly: bool,
        changes: &mut MapChanges,
    ) -> Option<Option<u64>> {
        // Extents that continue each other across the leaves are not joined: callers count extents, and only changes
        // are reported to them.
        let [one_len, other_len] = [one, other].map(|id| self.nodes.leaf(id).len());
        let both = [one, other].map(|id| self.nodes.leaf(id).extents());
        let all: Vec<MapExtent> = both.into_iter().flatten().collect();
        let (kept, given) = all.split_at(if evenly { middle(&all) } else { all.len() });
        let base = self.nodes.leaf(one).base();
        let (kept, given) = (LeafNode::of(kept, base)?, LeafNode::of(given, base)?);
        // The first extent of the right leaf now has a predecessor in its leaf, which it may follow.
        if one_len > 0 && other_len > 0 && kept.len() != one_len {
            note_behind(None, Some(all[one_len - 1]), all[one_len], changes);
        }
        let first = evenly.then(|| given.key(0));
        self.nodes.mark(one);
        self.nodes.edit_leaf(one, |leaf| *leaf = kept);
        if evenly {
            self.nodes.mark(other);
            self.nodes.edit_leaf(other, |leaf| *leaf = given);
        }
        Some(first)
    }

    fn pour_inner(
        &mut self,
        one: NodeIndex,
        other: NodeIndex,
        between: u64,
        evenly: bool,
    ) -> Option<u64> {
        let mut right = self.nodes.inner(other).clone();
        right.keys[0] = between;
        self.nodes.mark(one);
        let given = self.nodes.edit_inner(one, |inner| {
            inner.append(right);
            evenly.then(|| inner.split_off(inner.len() / 2))
        })?;
        let first = given.keys[0];
        self.nodes.mark(other);
        self.nodes.edit_inner(other, |inner| *inner = given);
        Some(first)
    }
}
