//! When to destage: pure functions from what is observed to what to do.

use std::time::Duration;

/// Above this share of the log in use, destaging does not wait for users to be idle.
pub(crate) const HIGH_WATER: f64 = 0.70;
/// Above this share, writers are slowed down so that they and the destaging meet before the log is
/// full. Not below: nobody need be destaging there.
pub(crate) const PACE_FROM: f64 = HIGH_WATER;
/// At this share they fill the log as fast as it is being emptied, so that it stays there: the rest
/// is a reserve, since room comes a window at a time.
pub(crate) const PACE_EVEN: f64 = 0.90;
/// How the multiple of that rate falls in between: to this power. Less than 1 saves most of the room for
/// later, so that it lasts: while what was written in a burst, densely, goes home, what paced writers
/// fill the log with has more headers, and they get less than the disk's own rate but for that room.
const PACE_POWER: f64 = 0.2;
/// Beyond, they are slowed further, down to this multiple of that rate.
const PACE_LEAST: f64 = 0.5;
/// The most segments taken in one window.
const WINDOW_SEGMENTS: u64 = 256;
/// The part of the ring that a window may be. The reserve must hold it until it is home, and what goes
/// home of the next until its tail has moved.
const WINDOW_PART: u64 = 12;
/// How long a window may take, in seconds: the longer, the shorter are the disk's ways.
const WINDOW_SECONDS: f64 = 12.0;
/// Once no request was under way for this long, the newest flush is noted in the superblock.
const QUIET: Duration = Duration::from_millis(200);
/// Once the newest flush is this old, it is noted though requests are under way. Long enough that notes cost little.
const UNNOTED_MAX: Duration = Duration::from_secs(1);
const IDLE_EMPTY: f64 = 1.0;
const IDLE_FULL: f64 = 0.001;
const PATIENCE_IDLE: Duration = Duration::from_millis(20);
const PATIENCE_URGENT: Duration = Duration::from_millis(100);
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);
const RETRY_PRESSED: Duration = Duration::from_secs(2);

/// What the destager sees when it asks what to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// Share in use of the log's segments or of the map's memory, whichever is larger, 0 to 1.
    pub(crate) used: f64,
    /// True if anything is not home, or the tail has something to pass.
    pub(crate) dirty: bool,
    /// How long no user request was under way.
    pub(crate) idle: Duration,
    /// True if somebody waits for it: for room in the log, or for everything to be home.
    pub(crate) pressed: bool,
    /// In how long what home refuses is to be tried again, if anything is.
    pub(crate) look_again: Option<Duration>,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Decision {
    /// Nothing to do until something happens.
    Rest,
    /// Look again after this long, or when something happens.
    Wait(Duration),
    /// Destage the oldest segments; if not urgent, yield to users.
    Destage { urgent: bool },
}

/// The state of flushes that [`note`] decides by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noting {
    /// True if the superblock names the newest record that is durable.
    pub(crate) is_noted: bool,
    /// Time since a flush made a record durable.
    pub(crate) age: Duration,
    /// Time since the last request of a client ended; zero while a request is under way.
    pub(crate) idle: Duration,
}

/// The next step of the noter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Note {
    /// Nothing to do until a flush makes a record durable.
    Rest,
    /// Look again after this long.
    Wait(Duration),
    /// Note the newest flush in the superblock.
    Now,
}

/// Decides the next step of the noter. Each record proves that the flushes before it succeeded, once the record itself is
/// durable. So a note is needed where no flush follows; and a volume that is read or written without a pause may
/// see none for hours.
pub(crate) fn note(seen: &Noting) -> Note {
    match seen.is_noted {
        true => Note::Rest,
        false if seen.idle >= QUIET || seen.age >= UNNOTED_MAX => Note::Now,
        false => {
            let wait = (QUIET - seen.idle).min(UNNOTED_MAX - seen.age);
            Note::Wait(wait.max(Duration::from_millis(1)))
        }
    }
}

/// How full the cache is: as full as what has the least room left of it, the log or the memory for its
/// map. More may be in use than is allowed, if a log was taken up that was written under another bound.
pub(crate) fn used(log: f64, map: f64) -> f64 {
    log.max(map).clamp(0.0, 1.0)
}

/// How long users must be idle before destaging begins: a second while the log is empty, a
/// millisecond when it is full (the paper's section on destaging gives the two ends).
pub(crate) fn idle_threshold(used: f64) -> Duration {
    let exponent = used.clamp(0.0, 1.0);
    Duration::from_secs_f64(IDLE_EMPTY * (IDLE_FULL / IDLE_EMPTY).powf(exponent))
}

/// What the destager should do.
pub(crate) fn decide(seen: &Observed) -> Decision {
    if seen.dirty && (seen.pressed || seen.used > HIGH_WATER) {
        return Decision::Destage { urgent: true };
    }
    if seen.dirty {
        let threshold = idle_threshold(seen.used);
        if seen.idle >= threshold {
            return Decision::Destage { urgent: false };
        }
        // The threshold falls as the log fills.
        let wait = (threshold - seen.idle).min(QUIET);
        return Decision::Wait(wait.max(Duration::from_micros(100)));
    }
    match seen.look_again {
        Some(span) => Decision::Wait(span.max(Duration::from_millis(1))),
        None => Decision::Rest,
    }
}

/// How long what destaging has under way may keep a device busy, which is how long a user's request
/// that comes then waits behind it: not noticeably while users are merely idle, longer while the log is
/// filling up, and without bound when somebody waits for the destaging itself.
pub(crate) fn patience(urgent: bool, pressed: bool) -> Option<Duration> {
    match (urgent, pressed) {
        (_, true) => None,
        (true, false) => Some(PATIENCE_URGENT),
        (false, false) => Some(PATIENCE_IDLE),
    }
}

/// How fast writers may fill the log, as a multiple of how fast it is being emptied: without bound
/// while there is room, as fast as the log empties where the reserve begins, slower within it. Never
/// not at all: rates are estimates.
pub(crate) fn pace(used: f64) -> Option<f64> {
    let over = (used - PACE_FROM) / (PACE_EVEN - PACE_FROM);
    let within = ((used - PACE_EVEN) / (1.0 - PACE_EVEN)).min(1.0);
    match (over > 0.0, within > 0.0) {
        (false, _) => None,
        (true, false) => Some(over.powf(-PACE_POWER)),
        (true, true) => Some(1.0 - (1.0 - PACE_LEAST) * within),
    }
}

/// Whether a write for which there is room, and for all who wait for some besides, goes at once: `pace` is how
/// long it is to wait for that, nothing while nobody is paced.
///
/// In order of arrival where that matters. But where nobody is paced, those who wait lose nothing; and if
/// writers waited behind them none the less, a queue that once formed would never end, since those whose
/// turn it was come again behind it: each write for ever paid for a place in it.
pub(crate) fn goes_at_once(queue: bool, pace: Option<Duration>) -> bool {
    pace.is_none_or(|wait| !queue && wait.is_zero())
}

/// The most segments to take in one window of a ring of `count`, at least one.
pub(crate) fn window_segments(count: u64) -> u64 {
    (count / WINDOW_PART).clamp(1, WINDOW_SEGMENTS)
}

/// The most home writes that one window may take, where so many a second are done: room comes a window at a
/// time, so a slow disk takes little at once.
pub(crate) fn window_writes(per_second: f64) -> u64 {
    (per_second * WINDOW_SECONDS) as u64
}

/// How long to wait before the n-th retry (from 0) of what failed: not long while somebody waits.
pub(crate) fn retry_after(n: u32, pressed: bool) -> Duration {
    let most = if pressed { RETRY_PRESSED } else { RETRY_MAX };
    RETRY_FIRST.saturating_mul(1 << n.min(10)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Observed = Observed {
        used: 0.1,
        dirty: true,
        idle: Duration::ZERO,
        pressed: false,
        look_again: None,
    };

    #[test]
    fn the_idle_threshold_falls_from_a_second_to_a_millisecond_as_the_log_fills() {
        assert_eq!(idle_threshold(0.0), Duration::from_secs(1));
        assert_eq!(idle_threshold(1.0).as_micros(), 1000);
        let steps: Vec<_> = (0..=10)
            .map(|n| idle_threshold(f64::from(n) / 10.0))
            .collect();
        assert!(steps.windows(2).all(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn destaging_waits_for_idleness_while_there_is_room_and_not_when_there_is_not() {
        assert!(matches!(decide(&BUSY), Decision::Wait(_)));
        let idle = Observed {
            idle: Duration::from_secs(1),
            ..BUSY
        };
        assert_eq!(decide(&idle), Decision::Destage { urgent: false });
        assert_eq!(
            decide(&Observed { used: 0.75, ..BUSY }),
            Decision::Destage { urgent: true }
        );
        assert_eq!(
            decide(&Observed {
                pressed: true,
                ..BUSY
            }),
            Decision::Destage { urgent: true }
        );
    }

    #[test]
    fn the_cache_is_as_full_as_what_has_the_least_room() {
        assert_eq!(used(0.2, 0.1), 0.2);
        assert_eq!(used(0.2, 0.9), 0.9);
        assert_eq!(used(0.2, 7.0), 1.0);
    }

    #[test]
    fn a_clean_volume_rests_unless_home_refuses_something() {
        let clean = Observed {
            dirty: false,
            idle: Duration::from_secs(9),
            ..BUSY
        };
        assert_eq!(decide(&clean), Decision::Rest);
        let refused = Observed {
            look_again: Some(QUIET),
            ..clean
        };
        assert_eq!(decide(&refused), Decision::Wait(QUIET));
    }

    #[test]
    fn a_flush_is_noted_once_the_volume_is_quiet_and_soon_on_a_busy_one() {
        let busy = Noting {
            is_noted: false,
            age: Duration::ZERO,
            idle: Duration::ZERO,
        };
        assert_eq!(note(&busy), Note::Wait(QUIET));
        let quiet = Noting {
            idle: QUIET,
            ..busy
        };
        assert_eq!(note(&quiet), Note::Now);
        let old = Noting {
            age: UNNOTED_MAX,
            ..busy
        };
        assert_eq!(note(&old), Note::Now);
        let noted = Noting {
            is_noted: true,
            ..old
        };
        assert_eq!(note(&noted), Note::Rest);
    }

    #[test]
    fn most_of_the_room_above_the_high_water_mark_is_left_to_be_used_slowly() {
        let middle = pace((PACE_FROM + PACE_EVEN) / 2.0).unwrap();
        assert!((1.1..1.25).contains(&middle), "{middle}");
    }

    #[test]
    fn writers_are_slowed_smoothly_down_to_the_rate_of_emptying() {
        assert_eq!(pace(0.5), None);
        assert!(pace(PACE_FROM + 1e-9).unwrap() > 10.0);
        assert!((pace(PACE_EVEN).unwrap() - 1.0).abs() < 1e-9);
        assert!((pace(1.0).unwrap() - PACE_LEAST).abs() < 1e-9);
        let steps: Vec<_> = (71..=100)
            .filter_map(|n| pace(f64::from(n) / 100.0))
            .collect();
        assert!(steps.windows(2).all(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn where_there_is_room_for_all_a_queue_holds_nobody_up_unless_writers_are_paced() {
        assert!(goes_at_once(false, None) && goes_at_once(true, None));
        let (now, later) = (Some(Duration::ZERO), Some(Duration::from_millis(1)));
        assert!(goes_at_once(false, now) && !goes_at_once(true, now));
        assert!(!goes_at_once(false, later) && !goes_at_once(true, later));
    }

    #[test]
    fn a_window_is_a_part_of_the_ring_and_takes_a_slow_disk_no_longer_than_seconds() {
        assert_eq!(window_segments(8192), WINDOW_SEGMENTS);
        assert_eq!(window_segments(64), 5);
        assert_eq!(window_segments(8), 1);
        assert_eq!(window_writes(150.0), 1800);
    }

    #[test]
    fn retries_back_off_to_half_a_minute() {
        assert_eq!(retry_after(0, false), RETRY_FIRST);
        assert_eq!(retry_after(100, false), RETRY_MAX);
        assert_eq!(retry_after(100, true), RETRY_PRESSED);
    }
}
