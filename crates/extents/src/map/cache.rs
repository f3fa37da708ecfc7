//! Which nodes are in memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::leaf::Leaf;
use super::nodes::{Body, Inner, Node, Nodes, Slot};
use super::{Map, Need};
use crate::extent::Extent;
use crate::format::{Content, FormatError, Node as Block};

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
        let block = Block::decode(bytes)?;
        if Block::crc(bytes) != Some(need.crc) {
            return Err(LoadError::Stale);
        }
        if block.volume != self.volume || block.level != need.level {
            return Err(LoadError::Misplaced);
        }
        let is_it =
            |slot: &Slot| slot.id().is_none() && slot.home() == Some((need.place, need.crc));
        let hook = self.hook(need.range.start, need.level).ok().flatten();
        if let Some(hook) = hook.filter(|hook| is_it(&hook.slot)) {
            let body = body(block, &hook.range).ok_or(LoadError::Misplaced)?;
            let id = self.nodes.add(Node::new(body, need.level, 0));
            self.edit_slot(&hook, |slot| slot.loaded(id));
        } else if let Some(root) = self.detached.iter_mut().find(|root| is_it(&root.slot)) {
            let body = body(block, &need.range).ok_or(LoadError::Misplaced)?;
            let id = self.nodes.add(Node::new(body, need.level, 0));
            root.slot.loaded(id);
        }
        Ok(())
    }

    /// Lets nodes go that are on the medium as they are here, and were not used lately, until the map
    /// takes no more than `limit` bytes of memory or nothing more can go. Changed nodes stay, and pinned
    /// ones, and what is above them; what is detached stays until it was reaped.
    pub fn shrink(&mut self, limit: usize) {
        let mut idle = 0;
        // Once around to take the marks of use away, once more to find a node without: if nothing goes
        // in two rounds, nothing can.
        while self.memory() > limit && self.nodes.clean() > 0 && idle <= 2 * self.nodes.places() {
            self.hand = (self.hand + 1) % self.nodes.places();
            idle = if self.evict(self.hand) { 0 } else { idle + 1 };
        }
    }

    /// Whether some of `range` is to stay in memory.
    pub(super) fn pinned(&self, range: &Range<u64>) -> bool {
        self.pins.borrow().has_some_of(range)
    }

    /// Lets the node at this place in memory go, if there is one that can.
    fn evict(&mut self, index: usize) -> bool {
        let id = Nodes::id_at(index);
        let node = self.nodes.get(id);
        if node.is_free() || node.epoch != 0 || node.take_used() {
            return false;
        }
        if let Body::Inner(inner) = &node.body
            && inner.loaded().next().is_some()
        {
            return false;
        }
        let Ok(Some(hook)) = self.hook(node.body.key(), node.level) else {
            return false;
        };
        if hook.slot.id() != Some(id) || self.pinned(&hook.range) {
            return false;
        }
        self.edit_slot(&hook, Slot::evicted);
        self.nodes.remove(id);
        true
    }
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
            let of = |child: &crate::format::Child| Slot::on_medium(child.place, child.crc);
            Body::Inner(Rc::new(Inner {
                keys: children.iter().map(|child| child.first).collect(),
                slots: children.iter().map(of).collect(),
            }))
        }
    })
}
