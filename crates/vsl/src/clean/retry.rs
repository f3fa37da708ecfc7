//! Times at which failed reads are tried again.

use std::time::Duration;

use forebay_rt::Instant;

/// Delays before a failed read is tried again: this delay first, then twice as long each time, up to `RETRY_MOST`.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MOST: Duration = Duration::from_secs(2);

/// The next time to try failed reads again.
pub(super) struct ReadRetry {
    after: Duration,
    pub(super) at: Option<Instant>,
    pub(super) failures: u32,
}

impl ReadRetry {
    pub(super) fn new() -> ReadRetry {
        ReadRetry {
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

    /// Records a success. Earlier failures are tried again at once.
    pub(super) fn succeeded(&mut self, now: Instant) {
        if self.failures > 0 {
            (self.after, self.failures, self.at) = (RETRY_FIRST, 0, Some(now));
        }
    }

    /// Returns true once when the time has come.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.at.is_some_and(|at| at <= now);
        if due {
            self.at = None;
        }
        due
    }
}
