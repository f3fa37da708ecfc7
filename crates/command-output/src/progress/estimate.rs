//! The speed of a work and its remaining time, estimated from its last seconds. The mean since the beginning would say
//! little about the present speed.

use std::collections::VecDeque;

/// The period of an estimate, in seconds.
const LAST_S: f64 = 10.0;
/// Changes closer together than this are merged, in seconds.
const GRAIN_S: f64 = 0.1;

/// A work with a decreasing remainder.
#[derive(Default)]
pub(super) struct WorkEstimate {
    most: u64,
    left: u64,
    /// Total time of work, in seconds.
    worked_s: f64,
    /// Changes of the remainder during the last seconds of work, oldest first: the time of work, and the remainder.
    changes: VecDeque<(f64, u64)>,
}

impl WorkEstimate {
    /// Records the remaining work after `worked_s` further seconds of work.
    pub(super) fn look(&mut self, left: u64, worked_s: f64) {
        self.worked_s += worked_s;
        self.left = left;
        // The work can grow while it is in progress.
        self.most = self.most.max(left);
        let is_news = |(at, before): &(f64, u64)| *before != left && self.worked_s - at >= GRAIN_S;
        if self.changes.back().is_none_or(is_news) {
            self.changes.push_back((self.worked_s, left));
        }
        // Keep one change older than the period, so that the recorded changes cover the whole period.
        while self.changes.len() > 2 && self.changes[1].0 <= self.worked_s - LAST_S {
            self.changes.pop_front();
        }
    }

    /// Returns the remainder, in bytes.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Returns the largest remainder ever, in bytes.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// Returns the completed work, in bytes: the difference from the largest remainder.
    pub(super) fn done(&self) -> u64 {
        self.most - self.left
    }

    /// Returns the speed during the last seconds of work, in bytes per second. `None` if the speed is not yet known, or
    /// the remainder does not decrease.
    pub(super) fn rate(&self) -> Option<f64> {
        let ((began, before), (ended, now)) = (self.changes.front()?, self.changes.back()?);
        let (gone, span) = (before.checked_sub(*now)?, ended - began);
        // Work that completes in lumps is not late before the next lump is due.
        let each = span / (self.changes.len() - 1).max(1) as f64;
        let span = span.max(self.worked_s - began - each);
        (gone > 0 && span > 0.0).then(|| gone as f64 / span)
    }

    /// Returns the seconds until completion at the present speed.
    pub(super) fn time_left(&self) -> Option<f64> {
        match self.left {
            0 => Some(0.0),
            left => self.rate().map(|rate| left as f64 / rate),
        }
    }
}

/// Formats a remaining time for people.
pub(super) fn left_in_words(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 100.0 => format!("{seconds:.0} s left"),
        seconds if seconds < 6000.0 => format!("{:.0} min left", seconds / 60.0),
        seconds => format!("{:.0} h left", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls [`WorkEstimate::look`] five times a second, for `seconds`; `left` returns the remainder.
    fn look(part: &mut WorkEstimate, seconds: u32, left: impl Fn(f64) -> u64) {
        for n in 1..=seconds * 5 {
            part.look(left(f64::from(n) / 5.0), 0.2);
        }
    }

    fn is_about(what: Option<f64>, expected: f64) {
        let near = what.is_some_and(|what| (what / expected - 1.0).abs() < 0.1);
        assert!(near, "{what:?}, not {expected}");
    }

    #[test]
    fn the_estimate_is_unknown_before_any_progress_and_zero_without_remaining_work() {
        let mut part = WorkEstimate::default();
        assert_eq!((part.rate(), part.time_left()), (None, Some(0.0)));
        look(&mut part, 30, |_| 1000);
        assert_eq!((part.rate(), part.time_left()), (None, None));
        look(&mut part, 1, |_| 0);
        assert_eq!((part.time_left(), part.done()), (Some(0.0), 1000));
    }

    #[test]
    fn the_estimate_uses_the_last_seconds_and_not_the_beginning() {
        let mut part = WorkEstimate::default();
        part.look(100_000, 0.0);
        look(&mut part, 60, |at| 100_000 - at as u64);
        look(&mut part, 15, |at| 99_940 - (at * 1000.0) as u64);
        is_about(part.rate(), 1000.0);
        is_about(part.time_left(), 84.94);
    }

    #[test]
    fn work_completed_in_steps_is_estimated_by_whole_steps() {
        let mut part = WorkEstimate::default();
        part.look(1000, 0.0);
        // 100 bytes are completed every 4 seconds.
        for second in 4..30 {
            look(&mut part, 1, |at| {
                1000 - (f64::from(second - 4) + at) as u64 / 4 * 100
            });
            if second > 9 {
                is_about(part.rate(), 25.0);
            }
        }
    }

    #[test]
    fn a_standstill_lowers_the_rate_gradually_and_growing_work_makes_it_unknown() {
        let mut part = WorkEstimate::default();
        part.look(1000, 0.0);
        look(&mut part, 10, |at| 1000 - (at * 10.0) as u64);
        let before = part.rate().unwrap();
        look(&mut part, 5, |_| 900);
        let after = part.rate().unwrap();
        assert!(after < before && after > before / 3.0, "{before} {after}");
        look(&mut part, 20, |at| 900 + at as u64);
        assert_eq!(part.rate(), None);
        assert_eq!(part.most(), 1000);
    }

    #[test]
    fn many_samples_in_a_short_time_take_little_memory() {
        let mut part = WorkEstimate::default();
        for n in 0..100_000 {
            part.look(1_000_000 - n, 0.001);
        }
        assert!(part.changes.len() <= 110, "{}", part.changes.len());
        is_about(part.rate(), 1000.0);
    }

    #[test]
    fn long_times_are_rounded() {
        let said = [5.4, 99.0, 240.0, 36_000.0].map(left_in_words);
        assert_eq!(said, ["5 s left", "99 s left", "4 min left", "10 h left"]);
    }
}
