//! Yielding to other tasks during long work.

use std::cell::Cell;

use crate::executor::Rt;

/// Divides work that never waits into portions: all other tasks can run after each. Otherwise a task with a long
/// sequence of such work would block all other tasks and the submission of I/O.
pub struct CoopBudget {
    size: u64,
    /// Amount done since the last yield.
    since: Cell<u64>,
}

impl CoopBudget {
    /// Creates portions of `size`, in any unit.
    pub const fn of(size: u64) -> CoopBudget {
        CoopBudget {
            size,
            since: Cell::new(0),
        }
    }

    /// Records `amount` as done, and yields at the end of a portion.
    pub async fn consume(&self, rt: &Rt, amount: u64) {
        let since = self.since.get() + amount;
        self.since.set(since % self.size);
        if since >= self.size {
            rt.yield_now().await;
        }
    }
}
