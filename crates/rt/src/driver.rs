//! The interface for waiting, used by an executor whose tasks all wait.

use std::cell::Cell;
use std::sync::Arc;

use crate::Instant;

/// Limit on the time that a driver may wait in one turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitLimit {
    /// Do not wait: only deliver events that have already happened.
    No,
    /// Wait for an event or until this instant.
    Until(Instant),
    /// Wait for an event.
    Forever,
}

/// Result of a turn of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverTurn {
    /// An event may have happened; check the tasks and timers again.
    Progress,
    /// The driver was asked to wait for ever, and no event is pending: a deadlock.
    Stalled,
}

/// Wakes a waiting driver from another thread.
pub trait Unpark: Send + Sync {
    /// Makes the current or next waiting [`Driver::turn`] return soon.
    fn unpark(&self);
}

/// The source of time and of events from outside.
pub trait Driver {
    /// Returns the time since a fixed instant of the driver's choice.
    fn now(&self) -> Instant;

    /// Submits queued work to the system, waits as requested, and wakes the tasks whose work is done.
    fn turn(&self, wait: WaitLimit) -> DriverTurn;

    /// Returns a handle that interrupts a wait from another thread.
    fn unparker(&self) -> Arc<dyn Unpark>;
}

/// A clock that jumps to the next timer as soon as all tasks wait.
///
/// No I/O happens under this clock, so a wait without a timer is a deadlock and reported as such.
#[derive(Default)]
pub struct VirtualTime {
    now: Cell<Instant>,
}

impl VirtualTime {
    /// Creates a clock at zero.
    pub fn new() -> VirtualTime {
        VirtualTime::default()
    }
}

struct NoUnpark;

impl Unpark for NoUnpark {
    fn unpark(&self) {}
}

impl Driver for VirtualTime {
    fn now(&self) -> Instant {
        self.now.get()
    }

    fn turn(&self, wait: WaitLimit) -> DriverTurn {
        match wait {
            WaitLimit::No => DriverTurn::Progress,
            WaitLimit::Until(at) => {
                self.now.set(self.now.get().max(at));
                DriverTurn::Progress
            }
            WaitLimit::Forever => DriverTurn::Stalled,
        }
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::new(NoUnpark)
    }
}
