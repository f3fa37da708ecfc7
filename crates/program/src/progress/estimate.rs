//! How fast something goes and when it will be done: by its last seconds, not since it began. What it
//! did in the beginning says little of what it is doing now.

use std::collections::VecDeque;

/// The last seconds, of which an estimate is made.
const LAST_S: f64 = 10.0;
/// Changes nearer to each other than this are one, in seconds.
const GRAIN_S: f64 = 0.1;

/// Something of which less and less is left.
#[derive(Default)]
pub(super) struct Part {
    most: u64,
    left: u64,
    /// For how long it was worked on, in seconds.
    worked_s: f64,
    /// How much was left when that changed, oldest first, in the last seconds of work.
    changes: VecDeque<(f64, u64)>,
}

impl Part {
    /// So much is left, after it was worked on for so many seconds more.
    pub(super) fn look(&mut self, left: u64, worked_s: f64) {
        self.worked_s += worked_s;
        self.left = left;
        // More can come in while it is going on.
        self.most = self.most.max(left);
        let is_news = |(at, before): &(f64, u64)| *before != left && self.worked_s - at >= GRAIN_S;
        if self.changes.back().is_none_or(is_news) {
            self.changes.push_back((self.worked_s, left));
        }
        // One change stays that is older than that, or a part of the time would have none.
        while self.changes.len() > 2 && self.changes[1].0 <= self.worked_s - LAST_S {
            self.changes.pop_front();
        }
    }

    /// What is left, in bytes.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The most that was ever left, in bytes.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// What is done of the most that was left, in bytes.
    pub(super) fn done(&self) -> u64 {
        self.most - self.left
    }

    /// Bytes a second by which it became less in the last seconds of work; nothing if that is not known
    /// yet, or it does not become less.
    pub(super) fn rate(&self) -> Option<f64> {
        let ((began, before), (ended, now)) = (self.changes.front()?, self.changes.back()?);
        let (gone, span) = (before.checked_sub(*now)?, ended - began);
        // What comes in lumps is not late before the next one is.
        let each = span / (self.changes.len() - 1).max(1) as f64;
        let span = span.max(self.worked_s - began - each);
        (gone > 0 && span > 0.0).then(|| gone as f64 / span)
    }

    /// Seconds until nothing is left, at that rate.
    pub(super) fn time_left(&self) -> Option<f64> {
        match self.left {
            0 => Some(0.0),
            left => self.rate().map(|rate| left as f64 / rate),
        }
    }
}

/// How long something still takes, for people.
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

    /// Looks five times a second for so long, while `left` says what is left.
    fn look(part: &mut Part, seconds: u32, left: impl Fn(f64) -> u64) {
        for n in 1..=seconds * 5 {
            part.look(left(f64::from(n) / 5.0), 0.2);
        }
    }

    fn is_about(what: Option<f64>, expected: f64) {
        let near = what.is_some_and(|what| (what / expected - 1.0).abs() < 0.1);
        assert!(near, "{what:?}, not {expected}");
    }

    #[test]
    fn nothing_is_known_before_anything_was_done_and_nothing_left_takes_no_time() {
        let mut part = Part::default();
        assert_eq!((part.rate(), part.time_left()), (None, Some(0.0)));
        look(&mut part, 30, |_| 1000);
        assert_eq!((part.rate(), part.time_left()), (None, None));
        look(&mut part, 1, |_| 0);
        assert_eq!((part.time_left(), part.done()), (Some(0.0), 1000));
    }

    #[test]
    fn the_last_seconds_count_and_not_the_beginning() {
        let mut part = Part::default();
        part.look(100_000, 0.0);
        look(&mut part, 60, |at| 100_000 - at as u64);
        look(&mut part, 15, |at| 99_940 - (at * 1000.0) as u64);
        is_about(part.rate(), 1000.0);
        is_about(part.time_left(), 84.94);
    }

    #[test]
    fn what_comes_in_lumps_is_estimated_by_whole_lumps() {
        let mut part = Part::default();
        part.look(1000, 0.0);
        // A hundred every 4 seconds.
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
    fn a_standstill_lowers_the_rate_bit_by_bit_and_growth_leaves_none() {
        let mut part = Part::default();
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
    fn many_looks_in_a_short_time_take_little_memory() {
        let mut part = Part::default();
        for n in 0..100_000 {
            part.look(1_000_000 - n, 0.001);
        }
        assert!(part.changes.len() <= 110, "{}", part.changes.len());
        is_about(part.rate(), 1000.0);
    }

    #[test]
    fn long_times_are_said_roughly() {
        let said = [5.4, 99.0, 240.0, 36_000.0].map(left_in_words);
        assert_eq!(said, ["5 s left", "99 s left", "4 min left", "10 h left"]);
    }
}
