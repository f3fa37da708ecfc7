//! Destaging policy: pure functions from observed values to decisions.

use std::time::Duration;

/// Share of the log in use above which destaging does not wait for clients to be idle.
pub(crate) const HIGH_WATER: f64 = 0.70;
/// Maximum number of segments in one window.
const WINDOW_SEGMENTS: u64 = 256;
/// Divisor of the ring's size that limits a window. The reserve must hold the window until it is on the data device,
/// and the destaged part of the next until the tail has moved.
const WINDOW_PART: u64 = 12;
/// Maximum duration of a window, in seconds. In a longer window the disk's seeks are shorter.
const WINDOW_SECONDS: f64 = 12.0;
/// Time without a request after which the newest flush is recorded in the superblock.
const QUIET: Duration = Duration::from_millis(200);
/// Age at which the newest flush is recorded although requests are under way. Long enough that the superblock writes
/// cost little.
const UNNOTED_MAX: Duration = Duration::from_secs(1);
const IDLE_EMPTY: f64 = 1.0;
const IDLE_FULL: f64 = 0.001;
const PATIENCE_IDLE: Duration = Duration::from_millis(20);
const PATIENCE_URGENT: Duration = Duration::from_millis(100);
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);
const RETRY_PRESSED: Duration = Duration::from_secs(2);

/// Input of the destager's decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DestageInput {
    /// Share in use of the log's segments or of the map's memory, whichever is larger, 0 to 1.
    pub(crate) used: f64,
    /// True if any data is not on the data device, or the tail can move.
    pub(crate) dirty: bool,
    /// Time since the last client request ended; zero while a request is under way.
    pub(crate) idle: Duration,
    /// True if a client waits for destaging: for free space in the log, or until the log is empty.
    pub(crate) pressed: bool,
    /// Time until data that the data device failed to write must be tried again; `None` without such data.
    pub(crate) look_again: Option<Duration>,
}

/// Decision of the destager.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum DestageDecision {
    /// Wait until an event.
    Rest,
    /// Decide again after this time, or after an event.
    Wait(Duration),
    /// Destage the oldest segments; if not urgent, yield to clients.
    Destage { urgent: bool },
}

/// The state of flushes that [`note`] decides by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoterInput {
    /// True if the superblock names the newest record that is durable.
    pub(crate) is_noted: bool,
    /// Time since a flush made a record durable.
    pub(crate) age: Duration,
    /// Time since the last request of a client ended; zero while a request is under way.
    pub(crate) idle: Duration,
}

/// The next step of the noter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum NoterDecision {
    /// Wait until a flush makes a record durable.
    Rest,
    /// Decide again after this time.
    Wait(Duration),
    /// Record the newest flush in the superblock.
    Now,
}

/// Decides the next step of the noter. Each record proves that the flushes before it succeeded, once the record itself
/// is durable. So the superblock must record a flush that no later flush follows. A volume under uninterrupted load may
/// not see another flush for hours.
pub(crate) fn note(seen: &NoterInput) -> NoterDecision {
    if seen.is_noted {
        NoterDecision::Rest
    } else if seen.idle >= QUIET || seen.age >= UNNOTED_MAX {
        NoterDecision::Now
    } else {
        let wait = (QUIET - seen.idle).min(UNNOTED_MAX - seen.age);
        NoterDecision::Wait(wait.max(Duration::from_millis(1)))
    }
}

/// Returns how long clients must be idle before destaging begins: a second while the log is empty, a millisecond when
/// it is full (the paper's section on destaging gives both ends).
pub(crate) fn idle_threshold(used: f64) -> Duration {
    let exponent = used.clamp(0.0, 1.0);
    Duration::from_secs_f64(IDLE_EMPTY * (IDLE_FULL / IDLE_EMPTY).powf(exponent))
}

/// Decides the next step of the destager.
pub(crate) fn decide(seen: &DestageInput) -> DestageDecision {
    if seen.dirty && (seen.pressed || seen.used > HIGH_WATER) {
        return DestageDecision::Destage { urgent: true };
    }
    if seen.dirty {
        let threshold = idle_threshold(seen.used);
        if seen.idle >= threshold {
            return DestageDecision::Destage { urgent: false };
        }
        // The threshold falls as the log fills.
        let wait = (threshold - seen.idle).min(QUIET);
        return DestageDecision::Wait(wait.max(Duration::from_micros(100)));
    }
    match seen.look_again {
        Some(span) => DestageDecision::Wait(span.max(Duration::from_millis(1))),
        None => DestageDecision::Rest,
    }
}

/// Returns how long destaging's requests under way may keep a device busy, which is how long a new client request waits
/// behind them. The limit is not noticeable while clients are merely idle, longer while the log is filling up, and
/// `None` when a client waits for destaging itself.
pub(crate) fn patience(urgent: bool, pressed: bool) -> Option<Duration> {
    match (urgent, pressed) {
        (_, true) => None,
        (true, false) => Some(PATIENCE_URGENT),
        (false, false) => Some(PATIENCE_IDLE),
    }
}

/// Returns the maximum number of segments in one window of a ring of `count` segments, at least one.
pub(crate) fn window_segments(count: u64) -> u64 {
    (count / WINDOW_PART).clamp(1, WINDOW_SEGMENTS)
}

/// Returns the maximum number of writes to the data device in one window, at a rate of `per_second` writes. Space is
/// freed one window at a time, so a slow disk takes small windows.
pub(crate) fn window_writes(per_second: f64) -> u64 {
    (per_second * WINDOW_SECONDS) as u64
}

/// Returns how long to wait before the n-th retry (from 0) of failed work. The wait is short while a client waits.
pub(crate) fn retry_after(n: u32, pressed: bool) -> Duration {
    let most = if pressed { RETRY_PRESSED } else { RETRY_MAX };
    RETRY_FIRST.saturating_mul(1 << n.min(10)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: DestageInput = DestageInput {
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
    fn destaging_waits_for_idle_clients_unless_the_log_is_full_or_destaging_is_pressed() {
        assert!(matches!(decide(&BUSY), DestageDecision::Wait(_)));
        let idle = DestageInput {
            idle: Duration::from_secs(1),
            ..BUSY
        };
        assert_eq!(decide(&idle), DestageDecision::Destage { urgent: false });
        assert_eq!(
            decide(&DestageInput { used: 0.75, ..BUSY }),
            DestageDecision::Destage { urgent: true }
        );
        assert_eq!(
            decide(&DestageInput {
                pressed: true,
                ..BUSY
            }),
            DestageDecision::Destage { urgent: true }
        );
    }

    #[test]
    fn a_clean_volume_rests_unless_the_data_device_fails_a_write() {
        let clean = DestageInput {
            dirty: false,
            idle: Duration::from_secs(9),
            ..BUSY
        };
        assert_eq!(decide(&clean), DestageDecision::Rest);
        let refused = DestageInput {
            look_again: Some(QUIET),
            ..clean
        };
        assert_eq!(decide(&refused), DestageDecision::Wait(QUIET));
    }

    #[test]
    fn a_flush_is_recorded_at_once_when_idle_and_after_a_delay_when_busy() {
        let busy = NoterInput {
            is_noted: false,
            age: Duration::ZERO,
            idle: Duration::ZERO,
        };
        assert_eq!(note(&busy), NoterDecision::Wait(QUIET));
        let quiet = NoterInput {
            idle: QUIET,
            ..busy
        };
        assert_eq!(note(&quiet), NoterDecision::Now);
        let old = NoterInput {
            age: UNNOTED_MAX,
            ..busy
        };
        assert_eq!(note(&old), NoterDecision::Now);
        let noted = NoterInput {
            is_noted: true,
            ..old
        };
        assert_eq!(note(&noted), NoterDecision::Rest);
    }

    #[test]
    fn a_window_is_a_fraction_of_the_ring_and_takes_a_slow_disk_only_seconds() {
        assert_eq!(window_segments(8192), WINDOW_SEGMENTS);
        assert_eq!(window_segments(64), 5);
        assert_eq!(window_segments(8), 1);
        assert_eq!(window_writes(150.0), 1800);
    }

    #[test]
    fn retry_delays_grow_to_half_a_minute() {
        assert_eq!(retry_after(0, false), RETRY_FIRST);
        assert_eq!(retry_after(100, false), RETRY_MAX);
        assert_eq!(retry_after(100, true), RETRY_PRESSED);
    }
}
