//! Writers that wait for admission, and their demand for free space.

use forebay_units::LINE_BYTES;

/// Demand for free space: bytes of data, and the fragments or marks that they make.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct SpaceDemand {
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

impl SpaceDemand {
    /// Demand of a pending zero or discard: a range without data.
    pub(crate) const OF_RANGE: SpaceDemand = SpaceDemand {
        bytes: 0,
        entries: 1,
    };

    /// Returns the demand of a write of this many contiguous bytes, with the maximum number of fragments.
    pub(crate) fn of_data(bytes: u64) -> SpaceDemand {
        let entries = bytes / LINE_BYTES + 2;
        SpaceDemand { bytes, entries }
    }

    pub(super) fn plus(self, other: SpaceDemand) -> SpaceDemand {
        SpaceDemand {
            bytes: self.bytes + other.bytes,
            entries: self.entries + other.entries,
        }
    }
}

/// Writers that wait for admission. They hold the queue lock one after the other, in order of arrival.
#[derive(Default)]
pub(super) struct WriterQueue {
    /// Queued writers, and their total demand.
    queued: u32,
    wanted: SpaceDemand,
    /// True if the first queued writer waits for the tail to move.
    starved: bool,
}

impl WriterQueue {
    /// Adds a writer that waits for free space.
    pub(super) fn enter(&mut self, wanted: SpaceDemand) {
        self.queued += 1;
        self.wanted = self.wanted.plus(wanted);
    }

    /// Removes a writer from the queue. It was the first, and the next one has not checked the free space yet.
    pub(super) fn leave(&mut self, wanted: SpaceDemand) {
        self.queued -= 1;
        self.wanted.bytes -= wanted.bytes;
        self.wanted.entries -= wanted.entries;
        self.starved = false;
    }

    /// Returns the number of queued writers.
    pub(super) fn len(&self) -> u32 {
        self.queued
    }

    /// Returns the total demand of queued writers. A new writer queues behind them unless everything fits.
    pub(super) fn wanted(&self) -> SpaceDemand {
        self.wanted
    }

    /// Records whether the first queued writer waits for the tail to move.
    pub(super) fn starve(&mut self, starved: bool) {
        self.starved = starved;
    }

    /// Returns true if the first queued writer waits for the tail to move.
    pub(super) fn is_starved(&self) -> bool {
        self.starved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_starved_writer_presses_destaging_until_the_writer_leaves() {
        let mut queue = WriterQueue::default();
        let wanted = SpaceDemand {
            bytes: 4096,
            entries: 3,
        };
        queue.enter(wanted);
        assert_eq!((queue.wanted(), queue.len()), (wanted, 1));
        assert!(!queue.is_starved());
        queue.starve(true);
        assert!(queue.is_starved());
        queue.leave(wanted);
        assert_eq!((queue.wanted(), queue.len()), (SpaceDemand::default(), 0));
        assert!(!queue.is_starved());
    }
}
