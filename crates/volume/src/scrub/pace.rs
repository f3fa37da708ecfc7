//! The pace of a scrub: a limit of its rate, and precedence of clients.

use std::time::Duration;

use forebay_rt::Instant;

/// Interval at which a scrub that stands back looks at the clients again.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Longest time that a scrub stands back before each piece, so that a scrub of a busy volume ends.
const STANDS_BACK_MAX: Duration = Duration::from_millis(100);

/// Decides when the next piece is read.
#[derive(Debug)]
pub(super) struct ScrubPace {
    /// The earliest time of the next piece.
    due: Instant,
    /// Time spent standing back since the last piece.
    stood_back: Duration,
}

impl ScrubPace {
    /// Returns the pace of a scrub that begins now.
    pub(super) fn new(now: Instant) -> ScrubPace {
        ScrubPace {
            due: now,
            stood_back: Duration::ZERO,
        }
    }

    /// Returns the time to wait before the caller asks again; `None` if the next piece may be read now.
    pub(super) fn wait(&mut self, now: Instant, clients_wait: bool) -> Option<Duration> {
        if now < self.due {
            // In short pauses, so that a changed rate or a stop takes effect soon.
            return Some(self.due.since(now).min(STANDS_BACK_MAX));
        }
        if clients_wait && self.stood_back < STANDS_BACK_MAX {
            self.stood_back += LOOK_EVERY;
            return Some(LOOK_EVERY);
        }
        self.stood_back = Duration::ZERO;
        None
    }

    /// Counts a piece whose read began at `began`. `rate` is in bytes per second; 0 means no limit. Time that the scrub
    /// could not use is not made up for.
    pub(super) fn read(&mut self, began: Instant, bytes: u64, rate: u64) {
        if let Some(nanos) = (u128::from(bytes) * 1_000_000_000).checked_div(rate.into()) {
            let span = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            self.due = began.plus(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(millis: u64) -> Instant {
        Instant::default().plus(Duration::from_millis(millis))
    }

    #[test]
    fn the_rate_is_kept_on_average_and_lost_time_is_not_made_up_for() {
        let mut pace = ScrubPace::new(at(0));
        assert_eq!(pace.wait(at(0), false), None);
        pace.read(at(0), MIB, 10 * MIB);
        assert_eq!(pace.wait(at(30), false), Some(Duration::from_millis(70)));
        assert_eq!(pace.wait(at(100), false), None);
        // The read began late.
        pace.read(at(500), MIB, 10 * MIB);
        assert_eq!(pace.wait(at(520), false), Some(Duration::from_millis(80)));
        assert_eq!(pace.wait(at(600), false), None);
        // A piece at a very low rate is waited for in short pauses.
        pace.read(at(600), MIB, 1);
        assert_eq!(pace.wait(at(601), false), Some(STANDS_BACK_MAX));
    }

    #[test]
    fn without_a_limit_only_clients_delay_a_piece() {
        let mut pace = ScrubPace::new(at(0));
        pace.read(at(0), u64::MAX, 0);
        assert_eq!(pace.wait(at(0), false), None);
        assert_eq!(pace.wait(at(0), true), Some(LOOK_EVERY));
        assert_eq!(pace.wait(at(5), false), None);
    }

    #[test]
    fn clients_go_first_but_a_piece_is_read_at_last() {
        let mut pace = ScrubPace::new(at(0));
        for _ in 0..2 {
            let (mut waited, mut now) = (Duration::ZERO, at(0));
            while let Some(pause) = pace.wait(now, true) {
                waited += pause;
                now = now.plus(pause);
            }
            assert_eq!(waited, STANDS_BACK_MAX);
        }
    }
}
