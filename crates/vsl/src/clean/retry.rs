//! When what could not be read is tried again.

use std::time::Duration;

use forebay_rt::Instant;

/// After something could not be read, it is tried again after this, and then after twice as long each time, up to the second.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MOST: Duration = Duration::from_secs(2);

/// When what could not be read is tried again.
pub(super) struct Retry {
    after: Duration,
    pub(super) at: Option<Instant>,
    pub(super) failures: u32,
}

impl Retry {
    pub(super) fn new() -> Retry {
        Retry {
            after: RETRY_FIRST,
            at: None,
            failures: 0,
        }
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.failures += 1;
        if self.at.is_none() {
            self.at = Some(now.plus(self.after));
            self.after = (2 * self.after).min(RETRY_MOST);
        }
    }

    /// Something could be read. What could not be read before is tried again at once.
    pub(super) fn succeeded(&mut self, now: Instant) {
        if self.failures > 0 {
            (self.after, self.failures, self.at) = (RETRY_FIRST, 0, Some(now));
        }
    }

    /// True once when the time has come.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.at.is_some_and(|at| at <= now);
        if due {
            self.at = None;
        }
        due
    }
}
