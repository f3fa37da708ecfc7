//! Counts the files of a filesystem, for `df -i`.
//!
//! The space contains the mapped i-nodes but not their number. They are counted once, a few leaves of the space's map
//! at a time, while files are created and removed.
//!
//! Invariant: apart from changes under way, `counted` is the number of files whose numbers are below `upto`. A change
//! records the progress of the count when the change begins. If the count has passed the change's number meanwhile, it
//! may or may not have seen the file, so counting restarts.

use std::cell::Cell;

/// The progress of counting files.
#[derive(Default)]
pub(crate) struct Census {
    counted: Cell<u64>,
    upto: Cell<u64>,
    /// The number of times that counting restarted.
    anew: Cell<u64>,
}

/// The progress of the count when a change begins.
#[derive(Clone, Copy)]
pub(crate) struct CensusStart {
    upto: u64,
    anew: u64,
}

impl Census {
    /// Returns the progress of the count. A change calls this when it begins.
    pub(crate) fn begin(&self) -> CensusStart {
        CensusStart {
            upto: self.upto.get(),
            anew: self.anew.get(),
        }
    }

    /// Counts the file that a completed change created.
    pub(crate) fn made(&self, number: u64, begun: CensusStart) {
        if self.has_counted(number, begun) {
            self.counted.set(self.counted.get() + 1);
        }
    }

    /// Removes the file that a completed change removed from the count.
    pub(crate) fn removed(&self, number: u64, begun: CensusStart) {
        if self.has_counted(number, begun) {
            self.counted.set(self.counted.get().saturating_sub(1));
        }
    }

    fn has_counted(&self, number: u64, begun: CensusStart) -> bool {
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

    /// Returns the first number that is not counted yet.
    pub(crate) fn upto(&self) -> u64 {
        self.upto.get()
    }

    /// Adds `found` files, with numbers from the progress at `begun` up to `upto`, unless counting restarted meanwhile.
    pub(crate) fn found(&self, begun: CensusStart, upto: u64, found: u64) {
        if begun.anew == self.anew.get() && begun.upto == self.upto.get() {
            self.counted.set(self.counted.get() + found);
            self.upto.set(upto);
        }
    }

    /// Returns the number of files counted so far. It is below the number of files until counting is complete.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_change_in_the_counted_part_restarts_the_count_and_others_are_included() {
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
        // This change began before counting restarted: the count may have seen its file or not.
        census.made(7, late);
        assert_eq!((census.counted(), census.upto.get()), (0, 0));
    }
}
