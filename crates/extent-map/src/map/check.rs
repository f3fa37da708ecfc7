//! Consistency checks of the tree, as far as it is in memory.

use std::ops::Range;

use super::leaf::encoded_bytes;
use super::nodes::states::NodeState;
use super::nodes::{NodeBody, NodeIndex, NodeLocation};
use super::path::narrow;
use super::{ExtentMap, MapTotals};

/// A node that breaks an invariant of the map.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the map's node of level {level} that begins at sector {sector}: {what}")]
pub struct NodeFlaw {
    /// The level of the node.
    pub level: u8,
    /// The first sector that the node covers.
    pub sector: u64,
    /// The broken invariant.
    pub what: &'static str,
}

/// Counts collected during a check.
#[derive(Default)]
struct CheckCounts {
    totals: MapTotals,
    nodes: usize,
    clean: usize,
    written: usize,
    /// Memory of nodes that are not clean.
    unclean_bytes: usize,
    frozen: usize,
    changed: usize,
    /// Nodes that are not in memory.
    missing: usize,
}

impl ExtentMap {
    /// Checks every node in memory: order, bounds, levels, states and counts. The totals are compared if the whole map
    /// is in memory.
    ///
    /// # Errors
    /// The first flaw found.
    pub fn check(&self) -> Result<(), NodeFlaw> {
        let mut seen = CheckCounts::default();
        let whole = |what| NodeFlaw {
            level: self.root.map_or(0, |root| root.level),
            sector: 0,
            what,
        };
        for root in self.root.iter().chain(&self.detached) {
            match root.slot.id() {
                Some(id) => self.check_node(id, root.level, 0..u64::MAX, &mut seen)?,
                None => seen.missing += 1,
            }
        }
        let demand = |holds: bool, what| if holds { Ok(()) } else { Err(whole(what)) };
        if seen.missing == 0 && self.exact {
            demand(seen.totals == self.totals, "counts that are wrong")?;
        } else {
            let least = seen.totals.nodes + seen.missing as u64;
            demand(least <= self.totals.nodes, "more nodes than were counted")?;
        }
        let nodes = &self.nodes;
        let (counts, clean) = (&nodes.counts, nodes.clean.len() + nodes.counts.retired);
        demand(seen.changed == counts.changed, "changed nodes miscounted")?;
        demand(seen.frozen == counts.frozen, "frozen nodes miscounted")?;
        demand(
            seen.written == nodes.written.len(),
            "written nodes miscounted",
        )?;
        demand(seen.clean == clean, "clean nodes miscounted")?;
        let unclean = seen.unclean_bytes == counts.unclean_bytes;
        demand(unclean, "memory of changed nodes miscounted")?;
        let free = nodes.ids().filter(|id| nodes.get(*id).is_free()).count();
        demand(seen.nodes + free == nodes.places(), "a node is lost")?;
        let parked = nodes.aside.values().filter(|aside| aside.gone).count();
        demand(free == nodes.free.len() + parked, "a place is lost")?;
        let bytes = nodes.count_bytes();
        demand(bytes == nodes.body_bytes(), "memory miscounted")?;
        demand(
            self.writing.is_some() || nodes.aside.is_empty(),
            "a node is set aside for no snapshot",
        )
    }

    fn check_node(
        &self,
        id: NodeIndex,
        level: u8,
        range: Range<u64>,
        seen: &mut CheckCounts,
    ) -> Result<(), NodeFlaw> {
        let node = self.nodes.get(id);
        let demand = |holds: bool, what| {
            let sector = range.start;
            let flaw = NodeFlaw {
                level,
                sector,
                what,
            };
            if holds { Ok(()) } else { Err(flaw) }
        };
        seen.nodes += 1;
        seen.totals.nodes += 1;
        demand(!node.is_free(), "no node")?;
        let state = self.nodes.state(id);
        *match state {
            NodeState::Clean => &mut seen.clean,
            NodeState::Written => &mut seen.written,
            NodeState::Frozen => &mut seen.frozen,
            NodeState::Changed => &mut seen.changed,
        } += 1;
        if state != NodeState::Clean {
            seen.unclean_bytes += node.body.bytes();
        }
        demand(node.level == level, "not of the level where it hangs")?;
        demand(node.body.len() > 0 || level == 0, "empty")?;
        demand(range.contains(&node.body.key()), "begins outside its range")?;
        let inner = match &node.body {
            NodeBody::Inner(inner) => inner,
            NodeBody::Leaf(_) => {
                demand(level == 0, "a leaf above the lowest level")?;
                return demand(self.is_leaf_sound(id, &range, seen), "extents out of order");
            }
        };
        demand(level > 0, "no leaf at the lowest level")?;
        demand(inner.keys.is_sorted_by(|a, b| a < b), "keys out of order")?;
        let last = inner.keys.last().is_some_and(|last| *last < range.end);
        demand(last, "a child outside its range")?;
        for (at, slot) in inner.slots.iter().enumerate() {
            let NodeLocation::Loaded(id) = *slot else {
                seen.missing += 1;
                continue;
            };
            let child = self.nodes.state(id);
            demand(child <= state, "a changed child goes unnoticed")?;
            let is_there = child > NodeState::Written || self.nodes.copy(id).is_some();
            demand(is_there, "a child that no checkpoint would write")?;
            let mut covered = range.clone();
            narrow(&mut covered, inner, at);
            self.check_node(id, level - 1, covered, seen)?;
        }
        Ok(())
    }

    fn is_leaf_sound(&self, id: NodeIndex, range: &Range<u64>, seen: &mut CheckCounts) -> bool {
        let leaf = self.nodes.leaf(id);
        let extents = || leaf.extents();
        seen.totals.entries += leaf.len() as u64;
        seen.totals.sectors += extents().map(|extent| extent.sectors).sum::<u64>();
        let mut pairs = extents().zip(extents().skip(1));
        let apart = pairs.all(|(one, next)| one.end() <= next.sector);
        let counted = encoded_bytes(None, extents()) == leaf.encoded();
        let all_sound = extents().all(|extent| extent.sectors > 0);
        apart && all_sound && counted && extents().last().is_none_or(|last| last.end() <= range.end)
    }
}
