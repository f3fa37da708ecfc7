//! Pure functions of admission: the speed of paced writers, and the right to pass the queue.

use std::time::Duration;

use crate::policy::HIGH_WATER;

/// Share of the log in use above which writers are paced, so that they and destaging reach the same rate before the log
/// is full. Not lower than the high-water mark, since below it destaging may not be active.
const PACE_FROM: f64 = HIGH_WATER;
/// Share at which writers fill the log as fast as it is emptied, so that it stays at this share. The rest is a reserve,
/// since space is freed one window at a time.
const PACE_EVEN: f64 = 0.90;
/// Exponent by which the multiple of the emptying rate falls between these two shares. A value below 1 saves most of
/// the free space for later. This is needed after a dense burst: while the burst is destaged, the records of paced
/// writers have more headers. Without the saved space, writers would get less than the disk's own rate.
const PACE_POWER: f64 = 0.2;
/// Multiple of the emptying rate to which writers are slowed within the reserve.
const PACE_LEAST: f64 = 0.5;

/// Returns how fast writers may fill the log, as a multiple of the rate at which it is emptied. The result is `None`
/// (no limit) below the pacing threshold, 1 at the beginning of the reserve, and less within the reserve. It never
/// becomes 0, since rates are estimates.
pub(super) fn pace(used: f64) -> Option<f64> {
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
pub(super) fn goes_at_once(queue: bool, pace: Option<Duration>) -> bool {
    pace.is_none_or(|wait| !queue && wait.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_slowed_little_in_most_of_the_space_above_the_high_water_mark() {
        let middle = pace(f64::midpoint(PACE_FROM, PACE_EVEN)).unwrap();
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
}
