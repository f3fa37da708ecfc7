//! A virtual clock that occasionally leaps forward, like the clock of a machine that was suspended.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use forebay_rng::Rng;
use forebay_rt::{Driver, DriverTurn, Instant, Unpark, VirtualTime, WaitLimit};

/// Virtual clock with leaps; see the module.
pub struct LeapingTime {
    below: VirtualTime,
    rng: Rng,
    one_in: Option<u64>,
    leapt: Cell<Duration>,
}

impl LeapingTime {
    /// Creates a clock that leaps at one in `one_in` waits, or never.
    pub fn new(seed: u64, one_in: Option<u64>) -> LeapingTime {
        LeapingTime {
            below: VirtualTime::new(),
            rng: Rng::new(seed),
            one_in,
            leapt: Cell::default(),
        }
    }

    /// Returns the sum of all leaps: time in which no task could run.
    pub fn leapt(&self) -> Duration {
        self.leapt.get()
    }
}

impl Driver for LeapingTime {
    fn now(&self) -> Instant {
        self.below.now()
    }

    fn turn(&self, wait: WaitLimit) -> DriverTurn {
        let leap = matches!(wait, WaitLimit::Until(_))
            && self.one_in.is_some_and(|one_in| self.rng.one_in(one_in));
        match wait {
            WaitLimit::Until(at) if leap => {
                let by = Duration::from_millis(1 << self.rng.below(23));
                self.leapt.set(self.leapt.get() + by);
                self.below.turn(WaitLimit::Until(at.plus(by)))
            }
            _ => self.below.turn(wait),
        }
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        self.below.unparker()
    }
}
