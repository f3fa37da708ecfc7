//! The number of mapped sectors of a file's data. It is counted once and then maintained, since a large file has many
//! mapped extents and clients often ask for its size on disk.
//!
//! Invariant: apart from writes under way, the known count equals the number of mapped sectors. A write reports its
//! difference when it ends; any other change discards the count afterwards. A count is discarded if a write was under
//! way during it, or if a change ended during it.

use std::cell::Cell;

/// The count of one file.
#[derive(Default)]
pub(crate) struct SectorCount {
    known: Cell<Option<u64>>,
    /// The number of writes under way.
    writing: Cell<u64>,
    /// Incremented whenever a change ends.
    changes: Cell<u64>,
}

/// A write under way, until it is dropped.
pub(crate) struct CountedWrite<'a>(&'a SectorCount);

/// A count under way.
#[derive(Clone, Copy)]
pub(crate) struct CountAttempt(Option<u64>);

impl SectorCount {
    pub(crate) fn known(&self) -> Option<u64> {
        self.known.get().filter(|_| self.writing.get() == 0)
    }

    /// Discards the count, since something other than a write may have changed the data.
    pub(crate) fn forget(&self) {
        self.known.set(None);
        self.changes.set(self.changes.get() + 1);
    }

    /// Begins a write that may map sectors and does nothing else.
    pub(crate) fn write(&self) -> CountedWrite<'_> {
        self.writing.set(self.writing.get() + 1);
        CountedWrite(self)
    }

    pub(crate) fn begin(&self) -> CountAttempt {
        let is_still = self.writing.get() == 0;
        CountAttempt(is_still.then(|| self.changes.get()))
    }

    /// Ends a count that found `sectors` mapped sectors.
    pub(crate) fn end(&self, count: CountAttempt, sectors: u64) {
        if self.writing.get() == 0 && count.0 == Some(self.changes.get()) {
            self.known.set(Some(sectors));
        }
    }
}

impl CountedWrite<'_> {
    /// Ends the write, which mapped `more` additional sectors.
    pub(crate) fn done(self, more: i64) {
        let known = self.0.known.get();
        let now = known.and_then(|known| known.checked_add_signed(more));
        self.0.known.set(now);
    }
}

impl Drop for CountedWrite<'_> {
    fn drop(&mut self) {
        self.0.writing.set(self.0.writing.get() - 1);
        self.0.changes.set(self.0.changes.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_sector_count_is_updated_by_writes_and_dropped_by_other_changes() {
        let counted = SectorCount::default();
        counted.end(counted.begin(), 8);
        assert_eq!(counted.known(), Some(8));
        let (one, other) = (counted.write(), counted.write());
        assert_eq!(counted.known(), None);
        other.done(3);
        one.done(-1);
        assert_eq!(counted.known(), Some(10));
        drop(counted.write());
        assert_eq!(counted.known(), Some(10));
        counted.forget();
        assert_eq!(counted.known(), None);
    }

    #[test]
    fn a_count_that_overlaps_a_write_is_not_kept() {
        let counted = SectorCount::default();
        let early = counted.begin();
        let writing = counted.write();
        let within = counted.begin();
        counted.end(early, 1);
        counted.end(within, 1);
        writing.done(1);
        counted.end(early, 1);
        counted.end(within, 1);
        assert_eq!(counted.known(), None);
        let count = counted.begin();
        counted.forget();
        counted.end(count, 1);
        assert_eq!(counted.known(), None);
    }
}
