//! Who is being served, and who waits.

use std::time::Duration;

use forebay_rt::Instant;

/// What of room is wanted: bytes of data, and pieces or marks that they come in.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Wanted {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl Wanted {
    pub(crate) fn plus(self, other: Wanted) -> Wanted {
        Wanted {
            bytes: self.bytes + other.bytes,
            entries: self.entries + other.entries,
        }
    }
}

/// Users' requests, and those who wait for destaging.
pub(crate) struct Activity {
    /// Requests under way.
    requests: u32,
    /// When the last one ended.
    quiet_since: Instant,
    /// Writers that wait for room, and what they want.
    queued: u32,
    wanted: Wanted,
    /// The first of these waits for the tail to move.
    starved: bool,
    /// Those who wait for everything to be home.
    draining: u32,
}

impl Activity {
    /// Nobody asks for anything yet.
    pub(crate) fn new(now: Instant) -> Activity {
        Activity {
            requests: 0,
            quiet_since: now,
            queued: 0,
            wanted: Wanted::default(),
            starved: false,
            draining: 0,
        }
    }

    /// A user's request begins.
    pub(crate) fn begin(&mut self) {
        self.requests += 1;
    }

    /// A user's request ends; true if it was the last under way.
    pub(crate) fn end(&mut self, now: Instant) -> bool {
        self.requests -= 1;
        if self.requests == 0 {
            self.quiet_since = now;
        }
        self.requests == 0
    }

    /// True while a user's request is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.requests > 0
    }

    /// How long no user's request has been under way.
    pub(crate) fn idle(&self, now: Instant) -> Duration {
        match self.is_busy() {
            false => now.since(self.quiet_since),
            true => Duration::ZERO,
        }
    }

    /// A writer begins to wait for room.
    pub(crate) fn queue(&mut self, wanted: Wanted) {
        self.queued += 1;
        self.wanted = self.wanted.plus(wanted);
    }

    /// A writer waits no longer. It was the first, and whoever is the next has not looked yet.
    pub(crate) fn leave_queue(&mut self, wanted: Wanted) {
        self.queued -= 1;
        self.wanted.bytes -= wanted.bytes;
        self.wanted.entries -= wanted.entries;
        self.starved = false;
    }

    /// How many writers wait for room.
    pub(crate) fn queued(&self) -> u32 {
        self.queued
    }

    /// What those want who wait for room: whoever comes now waits behind them, unless there is enough for all.
    pub(crate) fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// Whether the first writer in the queue waits for the tail to move.
    pub(crate) fn starve(&mut self, starved: bool) {
        self.starved = starved;
    }

    /// Somebody begins to wait for everything to be home.
    pub(crate) fn begin_drain(&mut self) {
        self.draining += 1;
    }

    /// Somebody waits for that no longer.
    pub(crate) fn end_drain(&mut self) {
        self.draining -= 1;
    }

    /// True while somebody waits for everything to be home.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining > 0
    }

    /// True if somebody waits for destaging: for room in the log, or for everything to be home.
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
        let mut activity = Activity::new(at(1));
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
    fn destaging_is_pressed_for_by_who_starves_or_drains_and_not_by_who_just_queues() {
        let mut activity = Activity::new(at(0));
        let wanted = Wanted {
            bytes: 4096,
            entries: 3,
        };
        activity.queue(wanted);
        assert_eq!(activity.wanted(), wanted);
        assert!(!activity.presses());
        activity.starve(true);
        assert!(activity.presses());
        activity.leave_queue(wanted);
        assert_eq!(activity.wanted(), Wanted::default());
        assert!(!activity.presses());
        activity.begin_drain();
        assert!(activity.presses());
        activity.end_drain();
        assert!(!activity.presses());
    }
}
