//! Which nodes are in memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::leaf::Leaf;
use super::nodes::states::NodeState;
use super::nodes::{Body, Inner, NodeId, Slot};
use super::{Map, Need};
use crate::extent::Extent;
use crate::format::{Child, Content, FormatError, Node as Block, VolumeId};

/// Rounds of evictions in one call of [`Map::shrink`].
const ROUNDS: usize = 4;
/// Nodes that one round looks at if it evicts none, and nodes that one call moves.
const LOOKS: usize = 1024;
/// Nodes that it looks at in addition for each that it evicts: a node is passed once if it was used, and some are inner
/// nodes whose children are in memory.
const LOOKS_PER_EVICTION: usize = 4;
/// Nodes that it evicts at most, which takes less than a millisecond.
const EVICTIONS_MAX: usize = 1024;

/// Why a block is not the node that the map needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// It is no node, or a damaged one.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It is sound, but not what its parent was written for.
    #[error("a node of the map, but another one or an older one than its parent names")]
    Stale,
    /// Its parent was written for it, and yet it is of another volume, of another level, or maps sectors
    /// that are not its own.
    #[error("a node of the map that does not belong where its parent has it")]
    Misplaced,
}

/// Ranges whose nodes stay in memory, and how many times each was asked for.
#[derive(Default)]
pub(super) struct PinTable {
    ranges: BTreeMap<(u64, u64), u32>,
    /// No range in the table is longer.
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

    /// Whether some of `range` is to stay. Most ranges are as short as a write, so the one that begins last
    /// before its end nearly always tells.
    fn has_some_of(&self, range: &Range<u64>) -> bool {
        let from = range.start.saturating_sub(self.longest);
        let mut before = self.ranges.range((from, 0)..(range.end, 0)).rev();
        before.any(|((_, end), _)| *end > range.start)
    }
}

/// Ranges that a caller is about to change: their nodes stay in memory until it releases or drops this.
pub struct Pins {
    table: Rc<RefCell<PinTable>>,
    ranges: Vec<(u64, u64)>,
}

impl Pins {
    /// Lets the nodes go.
    pub fn release(&mut self) {
        let mut table = self.table.borrow_mut();
        for range in self.ranges.drain(..) {
            table.remove(range);
        }
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        self.release();
    }
}

impl Map {
    /// Pins of this map, with nothing in them yet.
    pub fn pins(&self) -> Pins {
        Pins {
            table: Rc::clone(&self.pins),
            ranges: Vec::new(),
        }
    }

    /// Has the nodes of `range` stay in memory. After `Ok`, everything can be done to the range without
    /// another [`Need`] until `pins` are released, whatever else is done to the map.
    ///
    /// # Errors
    /// [`Need`] if a node is not in memory. What is there stays from now on, so that each node that is
    /// loaded brings the range closer.
    pub fn prepare(&mut self, range: Range<u64>, pins: &mut Pins) -> Result<(), Need> {
        let pinned = (range.start, range.end);
        // It is asked for again after each node that was loaded.
        if !range.is_empty() && pins.ranges.last() != Some(&pinned) {
            pins.ranges.push(pinned);
            self.pins.borrow_mut().add(pinned);
        }
        self.in_memory(range)
    }

    /// Takes in a node that was read from where `need` says. If it is not needed any more, nothing happens.
    ///
    /// # Errors
    /// If the bytes are not that node.
    pub fn load(&mut self, need: &Need, bytes: &[u8]) -> Result<(), LoadError> {
        let block = verified(self.volume, need, bytes)?;
        let (place, crc) = (need.place, need.crc);
        let missing = Slot::Medium { place, crc };
        let hook = self.hook(need.range.start, need.level).ok().flatten();
        if let Some(hook) = hook.filter(|hook| hook.slot == missing) {
            let body = body(block, &hook.range).ok_or(LoadError::Misplaced)?;
            let id = self.nodes.add_loaded(body, need.level, place, crc);
            self.set_slot(&hook, Slot::Loaded(id));
        } else if let Some(root) = self.detached.iter_mut().find(|root| root.slot == missing) {
            let body = body(block, &need.range).ok_or(LoadError::Misplaced)?;
            root.slot = Slot::Loaded(self.nodes.add_loaded(body, need.level, place, crc));
        }
        Ok(())
    }

    /// Evicts clean nodes that were not used recently, until the map takes at most `limit` bytes of memory. Changed
    /// and pinned nodes stay, and those above them; detached nodes stay until they are reaped; and what a snapshot
    /// has written stays until it completes, since it may not be on the medium before.
    ///
    /// One call looks at about a thousand nodes and at a few more for each that it evicts, and evicts a few thousand at
    /// most. Returns true if the map still takes more than `limit`, but another call may evict more.
    pub fn shrink(&mut self, limit: usize) -> bool {
        let mut more = false;
        for _ in 0..ROUNDS {
            let evicted = self.evict_to(limit);
            let is_interrupted = evicted.is_none();
            more = self.compact() || is_interrupted;
            // Compacting leaves some free places, so that a few more nodes may have to go.
            if evicted.is_none_or(|evicted| evicted == 0) || self.memory() <= limit {
                break;
            }
        }
        more && self.memory() > limit
    }

    /// Returns false if the clock has gone around twice without an eviction: the first time takes the marks of use away,
    /// the second one finds a node without.
    fn may_evict(&self) -> bool {
        self.idle <= 2 * self.nodes.clean.len()
    }

    /// Evicts nodes until `limit` is met, but for what compacting gives back, or until none can go. Returns their number;
    /// nothing if it has looked at or evicted as many as one round may.
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

    /// Whether some of `range` is to stay in memory.
    pub(super) fn pinned(&self, range: &Range<u64>) -> bool {
        self.pins.borrow().has_some_of(range)
    }

    /// Moves some nodes from the end to free places, if a quarter of all places is free. Otherwise the places would stay
    /// as many as there have ever been nodes at a time. Returns true if it has moved as many as one round may.
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
            // What is detached is not found from the root, and stays where it is until it is reaped.
            let Some(hook) = hook.filter(|hook| hook.slot == Slot::Loaded(id)) else {
                return false;
            };
            let to = self.nodes.compact(id);
            self.set_slot(&hook, Slot::Loaded(to));
            let trimmed = self.nodes.trim_last();
            debug_assert!(trimmed != Some(id));
        }
        true
    }

    /// Evicts a clean node, or takes it from the clock if it can never be evicted. Returns false if it stays.
    fn evict(&mut self, id: NodeId) -> bool {
        let node = self.nodes.get(id);
        debug_assert!(self.nodes.state(id) == NodeState::Clean);
        if node.take_used() {
            return false;
        }
        if let Body::Inner(inner) = &node.body
            && inner.has_loaded()
        {
            return false;
        }
        let Ok(Some(hook)) = self.hook(node.body.key(), node.level) else {
            return false;
        };
        if hook.slot != Slot::Loaded(id) {
            // It is detached, and does not come back.
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

/// Decodes the node that `need` names.
pub(super) fn verified(volume: VolumeId, need: &Need, bytes: &[u8]) -> Result<Block, LoadError> {
    let block = Block::decode(bytes)?;
    if Block::crc(bytes) != Some(need.crc) {
        return Err(LoadError::Stale);
    }
    if block.volume != volume || block.level != need.level {
        return Err(LoadError::Misplaced);
    }
    Ok(block)
}

/// The content of a node that covers `range`; nothing if it has more than that.
fn body(block: Block, range: &Range<u64>) -> Option<Body> {
    let within = |sector: u64| range.contains(&sector);
    if !within(block.base) {
        return None;
    }
    Some(match block.content {
        Content::Leaf(extents) => {
            let end = extents.last().map_or(block.base, Extent::end);
            Body::Leaf(Leaf::of(&extents, block.base).filter(|_| end <= range.end)?)
        }
        Content::Inner(children) => {
            children.last().filter(|last| within(last.first))?;
            let of = |child: &Child| Slot::Medium {
                place: child.place,
                crc: child.crc,
            };
            Body::Inner(Box::new(Inner {
                keys: children.iter().map(|child| child.first).collect(),
                slots: children.iter().map(of).collect(),
            }))
        }
    })
}
