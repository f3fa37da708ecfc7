//! What an executor does when none of its tasks can go on.

use std::cell::Cell;
use std::sync::Arc;

use crate::Instant;

/// How long a driver may wait in one turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Not at all: deliver what is there.
    No,
    /// Until something happens or this instant comes.
    Until(Instant),
    /// Until something happens.
    Forever,
}

/// What a turn of the driver came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Something may have happened; look at the tasks and timers again.
    Progress,
    /// Asked to wait for ever, and nothing that could happen is under way: a deadlock.
    Stalled,
}

/// Wakes a waiting driver from another thread.
pub trait Unpark: Send + Sync {
    /// Makes the current or next waiting [`Driver::turn`] return soon.
    fn unpark(&self);
}

/// The source of time and of events from outside.
pub trait Driver {
    /// The time, since some fixed instant of the driver's own.
    fn now(&self) -> Instant;

    /// Hands queued work to the system, waits as told, and wakes the tasks whose work is done.
    fn turn(&self, wait: Wait) -> Turn;

    /// A handle by which other threads interrupt a wait.
    fn unparker(&self) -> Arc<dyn Unpark>;
}

/// A clock that jumps to the next timer as soon as there is nothing else to do.
///
/// No I/O happens under it, so a wait without a timer is a deadlock and reported as one.
#[derive(Default)]
pub struct VirtualTime {
    now: Cell<Instant>,
}

impl VirtualTime {
    /// A clock that stands at zero.
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

    fn turn(&self, wait: Wait) -> Turn {
        match wait {
            Wait::No => Turn::Progress,
            Wait::Until(at) => {
                self.now.set(self.now.get().max(at));
                Turn::Progress
            }
            Wait::Forever => Turn::Stalled,
        }
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::new(NoUnpark)
    }
}
