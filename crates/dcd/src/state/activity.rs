//! Requests under way, and tasks that wait until the log is empty.

use std::time::Duration;

use forebay_rt::Instant;

/// Requests of clients, and tasks that wait until the log is empty.
pub(crate) struct ClientActivity {
    /// Requests under way.
    requests: u32,
    /// Time when the last request ended.
    quiet_since: Instant,
    /// Number of tasks that wait until the log is empty.
    draining: u32,
}

impl ClientActivity {
    /// Creates the state of a volume without requests.
    pub(crate) fn new(now: Instant) -> ClientActivity {
        ClientActivity {
            requests: 0,
            quiet_since: now,
            draining: 0,
        }
    }

    /// Counts a client's request that begins.
    pub(crate) fn begin(&mut self) {
        self.requests += 1;
    }

    /// Counts a client's request that ends. Returns true if no other is under way.
    pub(crate) fn end(&mut self, now: Instant) -> bool {
        self.requests -= 1;
        if self.requests == 0 {
            self.quiet_since = now;
        }
        self.requests == 0
    }

    /// Returns true while a client's request is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.requests > 0
    }

    /// Returns the time since the last client request ended; zero while a request is under way.
    pub(crate) fn idle(&self, now: Instant) -> Duration {
        if self.is_busy() {
            Duration::ZERO
        } else {
            now.since(self.quiet_since)
        }
    }

    /// Adds a task that waits until the log is empty.
    pub(crate) fn begin_drain(&mut self) {
        self.draining += 1;
    }

    /// Removes a task that waited until the log is empty.
    pub(crate) fn end_drain(&mut self) {
        self.draining -= 1;
    }

    /// Returns true while a task waits until the log is empty.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn idleness_begins_when_the_last_request_ends() {
        let mut activity = ClientActivity::new(at(1));
        assert_eq!(activity.idle(at(3)), Duration::from_secs(2));
        activity.begin();
        activity.begin();
        assert_eq!(activity.idle(at(4)), Duration::ZERO);
        assert!(!activity.end(at(5)));
        assert!(activity.is_busy());
        assert!(activity.end(at(6)));
        assert_eq!(activity.idle(at(9)), Duration::from_secs(3));
    }
}
