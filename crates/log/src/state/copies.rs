//! Which copy of the superblock is whole, and which says that the log was given up.

use std::cell::Cell;

/// What is known of the two copies on the device while the log is in use.
pub(crate) struct CopyStates {
    /// The last write of this copy succeeded.
    whole: [Cell<bool>; 2],
    /// This copy says that the log was given up.
    abandoned: [Cell<bool>; 2],
}

impl CopyStates {
    /// Of copies that have just been written.
    pub(crate) fn new() -> CopyStates {
        CopyStates {
            whole: [Cell::new(true), Cell::new(true)],
            abandoned: Default::default(),
        }
    }

    /// In which order to write them: one that is in doubt first.
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
