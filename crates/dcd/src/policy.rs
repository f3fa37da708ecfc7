//! Destaging policy: pure functions from observed values to decisions.

use std::time::Duration;

/// Share of the log in use above which destaging does not wait for clients to be idle.
pub(crate) const HIGH_WATER: f64 = 0.70;
/// Share of the log in use above which writers are paced, so that they and destaging reach the same rate before the log
/// is full. Not lower than the high-water mark, since below it destaging may not be active.
pub(crate) const PACE_FROM: f64 = HIGH_WATER;
/// Share at which writers fill the log as fast as it is emptied, so that it stays at this share. The rest is a reserve,
/// since space is freed one window at a time.
pub(crate) const PACE_EVEN: f64 = 0.90;
/// Exponent by which the multiple of the emptying rate falls between these two shares. A value below 1 saves most of
/// the free space for later. This is needed after a dense burst: while the burst is destaged, the records of paced
/// writers have more headers. Without the saved space, writers would get less than the disk's own rate.
const PACE_POWER: f64 = 0.2;
/// Multiple of the emptying rate to which writers are slowed within the reserve.
const PACE_LEAST: f64 = 0.5;
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

/// Returns the share of the cache in use: the larger of the shares of the log and of the map's memory. More may be in
/// use than is allowed, if the log was written under another limit.
pub(crate) fn used(log: f64, map: f64) -> f64 {
    log.max(map).clamp(0.0, 1.0)
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

/// Returns how fast writers may fill the log, as a multiple of the rate at which it is emptied. The result is `None`
/// (no limit) below the pacing threshold, 1 at the beginning of the reserve, and less within the reserve. It never
/// becomes 0, since rates are estimates.
pub(crate) fn pace(used: f64) -> Option<f64> {
    let over = (used - PACE_FROM) / (PACE_EVEN - PACE_FROM);
    let within = ((used - PACE_EVEN) / (1.0 - PACE_EVEN)).min(1.0);
    match (over > 0.0, within > 0.0) {
        (false, _) => None,
        (true, false) => Some(over.powf(-PACE_POWER)),
        (true, true) => Some(1.0 - (1.0 - PACE_LEAST) * within),
    }
}

/// Returns true if a write may be admitted at once. The caller has checked that free space suffices for this write and
/// for all queued writers. `pace` is the time the write must wait for its pace; `None` if writers are not paced.
///
/// Paced writers are admitted in order of arrival. If writers are not paced, the queued ones lose nothing by being
/// overtaken. If new writers always went to the end of the queue, a queue that once formed would never end, since
/// admitted writers come again behind it. Each write would then pay for queueing.
pub(crate) fn goes_at_once(queue: bool, pace: Option<Duration>) -> bool {
    pace.is_none_or(|wait| !queue && wait.is_zero())
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
    fn cache_fill_is_that_of_the_fuller_of_log_and_map() {
        assert_eq!(used(0.2, 0.1), 0.2);
        assert_eq!(used(0.2, 0.9), 0.9);
        assert_eq!(used(0.2, 7.0), 1.0);
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
    fn writers_are_slowed_little_in_most_of_the_space_above_the_high_water_mark() {
        let middle = pace((PACE_FROM + PACE_EVEN) / 2.0).unwrap();
        assert!((1.1..1.25).contains(&middle), "{middle}");
    }

    #[test]
    fn writers_are_slowed_smoothly_to_the_rate_at_which_the_log_is_emptied() {
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
    fn a_request_that_fits_passes_the_queue_unless_writers_are_paced() {
        assert!(goes_at_once(false, None) && goes_at_once(true, None));
        let (now, later) = (Some(Duration::ZERO), Some(Duration::from_millis(1)));
        assert!(goes_at_once(false, now) && !goes_at_once(true, now));
        assert!(!goes_at_once(false, later) && !goes_at_once(true, later));
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
