//! Letting others have a turn.

use std::cell::Cell;

use crate::executor::Rt;

/// Work that is done without waiting for anything, in portions: all other tasks have a turn after each. Or a task
/// that goes from one such piece of work to the next would keep everybody from working, and I/O from being begun.
pub struct Portions {
    size: u64,
    /// Done since the last turn.
    since: Cell<u64>,
}

impl Portions {
    /// Portions of `size`, in any unit.
    pub const fn of(size: u64) -> Portions {
        Portions {
            size,
            since: Cell::new(0),
        }
    }

    /// So much more is done.
    pub async fn did(&self, rt: &Rt, amount: u64) {
        let since = self.since.get() + amount;
        self.since.set(since % self.size);
        if since >= self.size {
            rt.yield_now().await;
        }
    }
}
