//! State of the two superblock copies: which of them are intact, and which record that the log was abandoned.

use std::cell::Cell;

/// State of the two copies on the device while the log is in use.
pub(crate) struct SuperblockCopyStates {
    /// True if the last write of this copy succeeded.
    whole: [Cell<bool>; 2],
    /// True if this copy records that the log was abandoned.
    abandoned: [Cell<bool>; 2],
}

impl SuperblockCopyStates {
    /// Creates the state of two copies that have just been written.
    pub(crate) fn new() -> SuperblockCopyStates {
        SuperblockCopyStates {
            whole: [Cell::new(true), Cell::new(true)],
            abandoned: Default::default(),
        }
    }

    /// Returns the order in which to write the copies: a doubtful copy comes first.
    pub(crate) fn order(&self) -> [usize; 2] {
        match (self.whole[0].get(), self.whole[1].get()) {
            (true, false) => [1, 0],
            _ => [0, 1],
        }
    }

    pub(crate) fn set_whole(&self, copy: usize, whole: bool) {
        self.whole[copy].set(whole);
    }

    pub(crate) fn says_abandoned(&self, copy: usize) -> bool {
        self.abandoned[copy].get()
    }

    pub(crate) fn set_abandoned(&self, copy: usize, abandoned: bool) {
        self.abandoned[copy].set(abandoned);
    }
}
