//! Loading and eviction of nodes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::leaf::LeafNode;
use super::nodes::states::NodeState;
use super::nodes::{InnerNode, NodeBody, NodeIndex, NodeLocation};
use super::{ExtentMap, NeededNode};
use crate::extent::MapExtent;
use crate::format::{ChildRef, FormatError, NodeContent, StoredNode as Block, VolumeId};

/// Rounds of evictions in one call of [`ExtentMap::shrink`].
const ROUNDS: usize = 4;
/// Nodes that a round examines without evicting any, and nodes that one call of compaction moves.
const LOOKS: usize = 1024;
/// Additional nodes that a round examines for each eviction: a recently used node is passed once, and inner nodes with
/// children in memory are skipped.
const LOOKS_PER_EVICTION: usize = 4;
/// The most nodes that a round evicts, which takes less than a millisecond.
const EVICTIONS_MAX: usize = 1024;

/// An error for a block that is not the needed node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NodeLoadError {
    /// The block is not a node, or is damaged.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The block is a valid node, but not the node that its parent refers to.
    #[error("it is not the node, or not the version of the node, that its parent records")]
    Stale,
    /// The parent refers to this node, but the node belongs to another volume, has another level, or maps sectors
    /// outside its range.
    #[error("the node does not belong at the position that its parent records")]
    Misplaced,
}

/// Ranges whose nodes stay in memory, with the number of pins for each.
#[derive(Default)]
pub(super) struct PinTable {
    ranges: BTreeMap<(u64, u64), u32>,
    /// An upper bound for the length of all ranges in the table.
    longest: u64,
}

impl PinTable {
    fn add(&mut self, range: (u64, u64)) {
        self.longest = self.longest.max(range.1 - range.0);
        *self.ranges.entry(range).or_default() += 1;
    }

    fn remove(&mut self, range: (u64, u64)) {
        if let Some(count) = self.ranges.get_mut(&range) {
            *count -= 1;
            if *count == 0 {
                self.ranges.remove(&range);
            }
        }
        if self.ranges.is_empty() {
            self.longest = 0;
        }
    }

    /// Returns true if a pinned range overlaps `range`. Most pinned ranges are as short as a write, so the last range
    /// that begins before the end of `range` usually decides.
    fn has_some_of(&self, range: &Range<u64>) -> bool {
        let from = range.start.saturating_sub(self.longest);
        let mut before = self.ranges.range((from, 0)..(range.end, 0)).rev();
        before.any(|((_, end), _)| *end > range.start)
    }
}

/// Ranges that a caller is about to change. Their nodes stay in memory until the caller releases or drops the pins.
pub struct RangePins {
    table: Rc<RefCell<PinTable>>,
    ranges: Vec<(u64, u64)>,
}

impl RangePins {
    /// Releases the pins.
    pub fn release(&mut self) {
        let mut table = self.table.borrow_mut();
        for range in self.ranges.drain(..) {
            table.remove(range);
        }
    }
}

impl Drop for RangePins {
    fn drop(&mut self) {
        self.release();
    }
}

impl ExtentMap {
    /// Returns an empty set of pins for this map.
    pub fn pins(&self) -> RangePins {
        RangePins {
            table: Rc::clone(&self.pins),
            ranges: Vec::new(),
        }
    }

    /// Pins the nodes of `range` in memory. After `Ok`, every operation on the range succeeds without [`NeededNode`] until
    /// `pins` are released, regardless of other changes of the map.
    ///
    /// # Errors
    /// [`NeededNode`] if a node is not in memory. Nodes that are already loaded are pinned, so each loaded node is a step
    /// towards success.
    pub fn prepare(&mut self, range: Range<u64>, pins: &mut RangePins) -> Result<(), NeededNode> {
        let pinned = (range.start, range.end);
        // The caller calls again after each loaded node.
        if !range.is_empty() && pins.ranges.last() != Some(&pinned) {
            pins.ranges.push(pinned);
            self.pins.borrow_mut().add(pinned);
        }
        self.in_memory(range)
    }

    /// Adds a node that was read from the place in `need`. Does nothing if the node is no longer needed.
    ///
    /// # Errors
    /// If the bytes are not the needed node.
    pub fn load(&mut self, need: &NeededNode, bytes: &[u8]) -> Result<(), NodeLoadError> {
        let block = verified(self.volume, need, bytes)?;
        let (place, crc) = (need.place, need.crc);
        let missing = NodeLocation::Medium { place, crc };
        let hook = self.hook(need.range.start, need.level).ok().flatten();
        if let Some(hook) = hook.filter(|hook| hook.slot == missing) {
            let body = body(block, &hook.range).ok_or(NodeLoadError::Misplaced)?;
            let id = self.nodes.add_loaded(body, need.level, place, crc);
            self.set_slot(&hook, NodeLocation::Loaded(id));
        } else if let Some(root) = self.detached.iter_mut().find(|root| root.slot == missing) {
            let body = body(block, &need.range).ok_or(NodeLoadError::Misplaced)?;
            root.slot = NodeLocation::Loaded(self.nodes.add_loaded(body, need.level, place, crc));
        }
        Ok(())
    }

    /// Evicts clean nodes that were not used recently, until the map uses at most `limit` bytes of memory. Changed and
    /// pinned nodes and their parents stay. Detached nodes stay until they are reaped. Nodes that a snapshot has
    /// written stay until the snapshot completes, since they may not be on the device before.
    ///
    /// A call examines about a thousand nodes, plus a few for each eviction, and evicts a few thousand at most. Returns
    /// true if the map still uses more than `limit` but another call may evict more.
    pub fn shrink(&mut self, limit: usize) -> bool {
        let mut more = false;
        for _ in 0..ROUNDS {
            let evicted = self.evict_to(limit);
            let is_interrupted = evicted.is_none();
            more = self.compact() || is_interrupted;
            // Compaction leaves some free slots, so a few more evictions may be needed.
            if evicted.is_none_or(|evicted| evicted == 0) || self.memory() <= limit {
                break;
            }
        }
        more && self.memory() > limit
    }

    /// Returns false if the clock went around twice without an eviction. The first rotation clears the use flags, and
    /// the second finds any unused node.
    fn may_evict(&self) -> bool {
        self.idle <= 2 * self.nodes.clean.len()
    }

    /// Evicts nodes until the memory, less the amount that compaction returns, meets `limit`, or no node can be
    /// evicted. Returns the number of evictions, or `None` if the round reached its limit of examined or evicted nodes.
    fn evict_to(&mut self, limit: usize) -> Option<usize> {
        let (mut looks, mut evictions) = (LOOKS, 0);
        if !self.may_evict() {
            self.idle = 0;
        }
        while self.memory() - self.nodes.sparse_bytes() > limit && self.may_evict() {
            if looks == 0 || evictions == EVICTIONS_MAX {
                return None;
            }
            let mut clean = self.nodes.clean;
            let Some(id) = clean.turn(&self.nodes) else {
                break;
            };
            self.nodes.clean = clean;
            (looks, self.idle) = (looks - 1, self.idle + 1);
            if self.evict(id) {
                (looks, self.idle) = (looks + LOOKS_PER_EVICTION, 0);
                evictions += 1;
            }
        }
        Some(evictions)
    }

    /// Returns true if a part of `range` is pinned in memory.
    pub(super) fn pinned(&self, range: &Range<u64>) -> bool {
        self.pins.borrow().has_some_of(range)
    }

    /// Moves some nodes from the end of the table to free slots, if a quarter of all slots is free. Otherwise the table
    /// would never shrink. Returns true if it has moved as many nodes as one round may.
    fn compact(&mut self) -> bool {
        for _ in 0..LOOKS {
            if self.nodes.sparse_bytes() == 0 || self.writing.is_some() {
                return false;
            }
            let Some(id) = self.nodes.trim_last() else {
                continue;
            };
            let node = self.nodes.get(id);
            let hook = self.hook(node.body.key(), node.level).ok().flatten();
            // Detached nodes are not found from the root, and stay in their slots until they are reaped.
            let Some(hook) = hook.filter(|hook| hook.slot == NodeLocation::Loaded(id)) else {
                return false;
            };
            let to = self.nodes.compact(id);
            self.set_slot(&hook, NodeLocation::Loaded(to));
            let trimmed = self.nodes.trim_last();
            debug_assert!(trimmed != Some(id));
        }
        true
    }

    /// Evicts a clean node, or removes it from the clock if it can never be evicted. Returns false if the node stays.
    fn evict(&mut self, id: NodeIndex) -> bool {
        let node = self.nodes.get(id);
        debug_assert!(self.nodes.state(id) == NodeState::Clean);
        if node.take_used() {
            return false;
        }
        if let NodeBody::Inner(inner) = &node.body
            && inner.has_loaded()
        {
            return false;
        }
        let Ok(Some(hook)) = self.hook(node.body.key(), node.level) else {
            return false;
        };
        if hook.slot != NodeLocation::Loaded(id) {
            // The node is detached, and is never evicted.
            self.nodes.retire(id);
            return true;
        }
        if self.pinned(&hook.range) {
            return false;
        }
        let copy = self.nodes.evict(id);
        self.set_slot(&hook, copy);
        true
    }
}

/// Decodes and verifies the node that `need` refers to.
pub(super) fn verified(
    volume: VolumeId,
    need: &NeededNode,
    bytes: &[u8],
) -> Result<Block, NodeLoadError> {
    let block = Block::decode(bytes)?;
    if Block::crc(bytes) != Some(need.crc) {
        return Err(NodeLoadError::Stale);
    }
    if block.volume != volume || block.level != need.level {
        return Err(NodeLoadError::Misplaced);
    }
    Ok(block)
}

/// Returns the content of a node that covers `range`, or `None` if the content exceeds the range.
fn body(block: Block, range: &Range<u64>) -> Option<NodeBody> {
    let within = |sector: u64| range.contains(&sector);
    if !within(block.base) {
        return None;
    }
    Some(match block.content {
        NodeContent::Leaf(extents) => {
            let end = extents.last().map_or(block.base, MapExtent::end);
            NodeBody::Leaf(LeafNode::of(&extents, block.base).filter(|_| end <= range.end)?)
        }
        NodeContent::Inner(children) => {
            children.last().filter(|last| within(last.first))?;
            let of = |child: &ChildRef| NodeLocation::Medium {
                place: child.place,
                crc: child.crc,
            };
            NodeBody::Inner(Box::new(InnerNode {
                keys: children.iter().map(|child| child.first).collect(),
                slots: children.iter().map(of).collect(),
            }))
        }
    })
}
