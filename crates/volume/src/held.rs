//! Layers that are held still one after the other.

use std::cell::Cell;

/// Detects a release between the steps of holding several layers still. After a release, no further layer must be held.
#[derive(Default)]
pub(crate) struct ReleaseCounter(Cell<u64>);

impl ReleaseCounter {
    /// Notes that the layers are released.
    pub(crate) fn release(&self) {
        self.0.set(self.0.get() + 1);
    }

    /// Returns the number of releases so far.
    pub(crate) fn count(&self) -> u64 {
        self.0.get()
    }
}
