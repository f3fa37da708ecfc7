//! Number of writes that destaging a set of blocks takes.

use std::collections::BTreeSet;

use forebay_units::{BlockNumber, LINE_SECTORS};

use crate::home::RUN_SECTORS_MAX;

/// Blocks that are destaged together, with adjacent blocks in one write.
#[derive(Default)]
pub(super) struct DestageWrites {
    lines: BTreeSet<BlockNumber>,
    /// Number of groups of adjacent blocks.
    rows: u64,
}

impl DestageWrites {
    /// Adds a block. A block that was added before changes nothing.
    pub(super) fn add(&mut self, line: BlockNumber) {
        if !self.lines.insert(line) {
            return;
        }
        let follows = line.0 > 0 && self.lines.contains(&BlockNumber(line.0 - 1));
        let leads = self.lines.contains(&BlockNumber(line.0 + 1));
        match (follows, leads) {
            (false, false) => self.rows += 1,
            (true, true) => self.rows -= 1,
            _ => {}
        }
    }

    /// Returns the approximate number of writes. A long group of adjacent blocks takes several.
    pub(super) fn count(&self) -> u64 {
        self.rows + self.lines.len() as u64 * LINE_SECTORS / RUN_SECTORS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(lines: impl IntoIterator<Item = u64>) -> u64 {
        let mut writes = DestageWrites::default();
        lines
            .into_iter()
            .for_each(|line| writes.add(BlockNumber(line)));
        writes.count()
    }

    #[test]
    fn adjacent_blocks_are_a_single_write_in_any_order() {
        assert_eq!(count([]), 0);
        assert_eq!(count([7, 9, 0]), 3);
        assert_eq!(count([7, 9, 8]), 1);
        assert_eq!(count([0, 1, 1, 3, 2, 0]), 1);
        assert_eq!(count([5, 4, 7, 6, 9]), 2);
    }

    #[test]
    fn a_long_range_takes_a_write_for_each_mebibyte_and_an_extra_write() {
        assert_eq!(count(100..1124), 5);
        assert_eq!(count((100..1124).rev()), 5);
    }
}
