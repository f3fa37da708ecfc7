//! How many sectors of a file's data are mapped, counted once and kept right: a large file has many runs of them, and is asked
//! often how many there are.
//!
//! Invariant: what is known is what is mapped, but for writes that are under way. Those say afterwards by how much they changed
//! it; who changes anything else has it forgotten afterwards. What was counted while a write was under way, or something ended, is
//! not kept.

use std::cell::Cell;

/// The sectors of one file.
#[derive(Default)]
pub(crate) struct Counted {
    known: Cell<Option<u64>>,
    /// Writes under way.
    writing: Cell<u64>,
    /// Grows with each end of a change.
    changes: Cell<u64>,
}

/// A write under way; until it is dropped.
pub(crate) struct Writing<'a>(&'a Counted);

/// A count that was begun.
#[derive(Clone, Copy)]
pub(crate) struct Count(Option<u64>);

impl Counted {
    pub(crate) fn known(&self) -> Option<u64> {
        self.known.get().filter(|_| self.writing.get() == 0)
    }

    /// Something else than a write changed data, or may have.
    pub(crate) fn forget(&self) {
        self.known.set(None);
        self.changes.set(self.changes.get() + 1);
    }

    /// Something is about to be written that may not have been mapped, and nothing but that.
    pub(crate) fn write(&self) -> Writing<'_> {
        self.writing.set(self.writing.get() + 1);
        Writing(self)
    }

    pub(crate) fn begin(&self) -> Count {
        let is_still = self.writing.get() == 0;
        Count(is_still.then(|| self.changes.get()))
    }

    /// So many were counted.
    pub(crate) fn end(&self, count: Count, sectors: u64) {
        if self.writing.get() == 0 && count.0 == Some(self.changes.get()) {
            self.known.set(Some(sectors));
        }
    }
}

impl Writing<'_> {
    /// It is written: so many sectors more are mapped.
    pub(crate) fn done(self, more: i64) {
        let known = self.0.known.get();
        let now = known.and_then(|known| known.checked_add_signed(more));
        self.0.known.set(now);
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.writing.set(self.0.writing.get() - 1);
        self.0.changes.set(self.0.changes.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_kept_right_by_writes_and_forgotten_by_all_else() {
        let counted = Counted::default();
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
    fn a_count_during_which_something_was_written_is_not_kept() {
        let counted = Counted::default();
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
