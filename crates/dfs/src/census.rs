//! Counts the files of a filesystem, for `df -i`.
//!
//! The space knows which i-nodes are mapped, and not how many. They are counted once, a few leaves of the space's map at a time, while
//! files come and go.
//!
//! Invariant: of the numbers below `upto`, as many have files as are counted, but for changes that are under way. A change says where
//! counting was when it began. If counting has passed its number meanwhile, it is not known whether that was counted, and counting
//! begins anew.

use std::cell::Cell;

/// The files that are counted.
#[derive(Default)]
pub(crate) struct Census {
    counted: Cell<u64>,
    upto: Cell<u64>,
    /// The number of times that counting began anew.
    anew: Cell<u64>,
}

/// The state of counting at the time when a change begins.
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    upto: u64,
    anew: u64,
}

impl Census {
    /// A change begins.
    pub(crate) fn begin(&self) -> Begun {
        Begun {
            upto: self.upto.get(),
            anew: self.anew.get(),
        }
    }

    /// A change that has ended made the file of this number.
    pub(crate) fn made(&self, number: u64, begun: Begun) {
        if self.has_counted(number, begun) {
            self.counted.set(self.counted.get() + 1);
        }
    }

    /// A change that has ended removed the file of this number.
    pub(crate) fn removed(&self, number: u64, begun: Begun) {
        if self.has_counted(number, begun) {
            self.counted.set(self.counted.get().saturating_sub(1));
        }
    }

    fn has_counted(&self, number: u64, begun: Begun) -> bool {
        if number >= self.upto.get() {
            return false;
        }
        let is_certain = begun.anew == self.anew.get() && number < begun.upto;
        if !is_certain {
            self.counted.set(0);
            self.upto.set(0);
            self.anew.set(self.anew.get() + 1);
        }
        is_certain
    }

    /// The first number that is not counted.
    pub(crate) fn upto(&self) -> u64 {
        self.upto.get()
    }

    /// From where counting was at `begun` to `upto` so many were found, unless it began anew meanwhile.
    pub(crate) fn found(&self, begun: Begun, upto: u64, found: u64) {
        if begun.anew == self.anew.get() && begun.upto == self.upto.get() {
            self.counted.set(self.counted.get() + found);
            self.upto.set(upto);
        }
    }

    /// Files that are counted: fewer than there are until all are.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_counting_passed_has_it_begin_anew_and_others_are_counted() {
        let census = Census::default();
        let go_on = |upto: u64, found: u64| census.found(census.begin(), upto, found);
        let early = census.begin();
        go_on(100, 10);
        let late = census.begin();
        census.made(100, early);
        census.made(50, late);
        census.removed(51, late);
        census.made(52, late);
        assert_eq!((census.counted(), census.upto.get()), (11, 100));
        census.removed(53, early);
        assert_eq!((census.counted(), census.upto.get()), (0, 0));
        go_on(100, 12);
        // This change began before counting began anew: counting may have seen its file or not.
        census.made(7, late);
        assert_eq!((census.counted(), census.upto.get()), (0, 0));
    }
}
