//! Requests under way, and tasks that wait.

use std::time::Duration;

use forebay_rt::Instant;

/// Demand for free space: bytes of data, and the fragments or marks that they make.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct SpaceDemand {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl SpaceDemand {
    pub(crate) fn plus(self, other: SpaceDemand) -> SpaceDemand {
        SpaceDemand {
            bytes: self.bytes + other.bytes,
            entries: self.entries + other.entries,
        }
    }
}

/// Requests of clients, and tasks that wait for destaging.
pub(crate) struct ClientActivity {
    /// Requests under way.
    requests: u32,
    /// Time when the last request ended.
    quiet_since: Instant,
    /// Writers that wait for free space, and their total demand.
    queued: u32,
    wanted: SpaceDemand,
    /// True if the first queued writer waits for the tail to move.
    starved: bool,
    /// Number of tasks that wait until the log is empty.
    draining: u32,
}

impl ClientActivity {
    /// Creates the state of a volume without requests.
    pub(crate) fn new(now: Instant) -> ClientActivity {
        ClientActivity {
            requests: 0,
            quiet_since: now,
            queued: 0,
            wanted: SpaceDemand::default(),
            starved: false,
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

    /// Adds a writer that waits for free space.
    pub(crate) fn queue(&mut self, wanted: SpaceDemand) {
        self.queued += 1;
        self.wanted = self.wanted.plus(wanted);
    }

    /// Removes a writer from the queue. It was the first, and the next one has not checked the free space yet.
    pub(crate) fn leave_queue(&mut self, wanted: SpaceDemand) {
        self.queued -= 1;
        self.wanted.bytes -= wanted.bytes;
        self.wanted.entries -= wanted.entries;
        self.starved = false;
    }

    /// Returns the number of queued writers.
    pub(crate) fn queued(&self) -> u32 {
        self.queued
    }

    /// Returns the total demand of queued writers. A new writer queues behind them unless everything fits.
    pub(crate) fn wanted(&self) -> SpaceDemand {
        self.wanted
    }

    /// Records whether the first queued writer waits for the tail to move.
    pub(crate) fn starve(&mut self, starved: bool) {
        self.starved = starved;
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

    /// Returns true if a client waits for destaging: for free space in the log, or until the log is empty.
    pub(crate) fn presses(&self) -> bool {
        self.starved || self.is_draining()
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

    #[test]
    fn starving_requests_and_drains_press_destaging_and_queued_requests_do_not() {
        let mut activity = ClientActivity::new(at(0));
        let wanted = SpaceDemand {
            bytes: 4096,
            entries: 3,
        };
        activity.queue(wanted);
        assert_eq!(activity.wanted(), wanted);
        assert!(!activity.presses());
        activity.starve(true);
        assert!(activity.presses());
        activity.leave_queue(wanted);
        assert_eq!(activity.wanted(), SpaceDemand::default());
        assert!(!activity.presses());
        activity.begin_drain();
        assert!(activity.presses());
        activity.end_drain();
        assert!(!activity.presses());
    }
}
