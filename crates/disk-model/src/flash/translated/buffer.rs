//! The write buffer of a drive: mapping units that are not programmed yet, and the number of those being programmed.

use std::collections::{BTreeMap, VecDeque};

/// A mapping unit, or a part of it, with a bit for each block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UnitPart {
    pub(super) unit: u64,
    pub(super) blocks: u64,
}

/// The write buffer.
///
/// A whole unit is programmed at once. Partial units may fill half of the buffer. Beyond that the buffer programs the
/// oldest one.
pub(super) struct WriteBuffer {
    /// Capacity in mapping units.
    space: usize,
    /// All blocks of a unit.
    whole: u64,
    partial: BTreeMap<u64, u64>,
    /// The units in `partial`, oldest first. Some entries are stale.
    order: VecDeque<u64>,
    programming: usize,
}

impl WriteBuffer {
    /// Creates an empty buffer for `space` mapping units of `unit_blocks` blocks.
    pub(super) fn new(space: u32, unit_blocks: u64) -> WriteBuffer {
        WriteBuffer {
            space: space as usize,
            whole: u64::MAX >> (64 - unit_blocks),
            partial: BTreeMap::new(),
            order: VecDeque::new(),
            programming: 0,
        }
    }

    /// Adds a part of a unit; returns false if the buffer has no space for it.
    pub(super) fn add(&mut self, part: UnitPart) -> bool {
        if let Some(blocks) = self.partial.get_mut(&part.unit) {
            *blocks |= part.blocks;
            if *blocks == self.whole {
                // Whole units are programmed next.
                self.order.push_front(part.unit);
            }
            return true;
        }
        if self.partial.len() + self.programming >= self.space {
            return false;
        }
        self.partial.insert(part.unit, part.blocks);
        if part.blocks == self.whole {
            self.order.push_front(part.unit);
        } else {
            self.order.push_back(part.unit);
        }
        true
    }

    /// Takes the next unit to program: a whole unit, or the oldest partial one if too many units are partial. The unit
    /// occupies space until [`WriteBuffer::programmed`].
    pub(super) fn take(&mut self) -> Option<UnitPart> {
        while let Some(unit) = self.order.front() {
            let Some(blocks) = self.partial.get(unit).copied() else {
                self.order.pop_front();
                continue;
            };
            if blocks != self.whole && self.partial.len() <= self.space / 2 {
                return None;
            }
            let unit = *unit;
            self.order.pop_front();
            self.partial.remove(&unit);
            self.programming += 1;
            return Some(UnitPart { unit, blocks });
        }
        None
    }

    /// True if the part has all blocks of its unit.
    pub(super) fn is_whole(&self, part: &UnitPart) -> bool {
        part.blocks == self.whole
    }

    /// True if the buffer holds these blocks of the unit.
    pub(super) fn holds(&self, part: &UnitPart) -> bool {
        let blocks = self.partial.get(&part.unit);
        blocks.is_some_and(|blocks| part.blocks & !blocks == 0)
    }

    /// Removes a unit.
    pub(super) fn forget(&mut self, unit: u64) {
        self.partial.remove(&unit);
    }

    /// Notes that a unit was programmed.
    pub(super) fn programmed(&mut self) {
        self.programming -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(unit: u64, blocks: u64) -> UnitPart {
        UnitPart { unit, blocks }
    }

    #[test]
    fn partial_units_are_gathered_and_complete_units_are_programmed_first() {
        let mut buffer = WriteBuffer::new(8, 4);
        assert!(buffer.add(part(1, 0b0001)) && buffer.add(part(2, 0b0011)));
        assert_eq!(buffer.take(), None);
        assert!(buffer.add(part(2, 0b1100)));
        assert_eq!(buffer.take(), Some(part(2, 0b1111)));
        assert_eq!(buffer.take(), None);
        assert!(buffer.holds(&part(1, 1)) && !buffer.holds(&part(1, 2)));
    }

    #[test]
    fn the_oldest_unit_is_programmed_at_half_full_and_a_full_buffer_accepts_no_more() {
        let mut buffer = WriteBuffer::new(4, 4);
        for unit in 1..=4 {
            assert!(buffer.add(part(unit, 1)));
        }
        assert!(!buffer.add(part(5, 1)));
        assert!(buffer.add(part(3, 2)));
        assert_eq!(buffer.take(), Some(part(1, 1)));
        assert_eq!(buffer.take(), Some(part(2, 1)));
        assert_eq!(buffer.take(), None);
        assert!(!buffer.add(part(5, 1)));
        buffer.programmed();
        assert!(buffer.add(part(5, 1)));
    }

    #[test]
    fn a_discarded_unit_is_not_programmed() {
        let mut buffer = WriteBuffer::new(4, 1);
        assert!(buffer.add(part(1, 1)));
        buffer.forget(1);
        assert_eq!(buffer.take(), None);
        // The unit is added again, while the order still has its stale entry.
        assert!(buffer.add(part(1, 1)) && buffer.add(part(2, 1)));
        assert_eq!(buffer.take(), Some(part(2, 1)));
        assert_eq!(buffer.take(), Some(part(1, 1)));
    }
}
