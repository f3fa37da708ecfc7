//! Times of progress lines on an output without a bar: a log, or a terminal with plain lines.

use forebay_control::VolumeActivity;

/// Maximum interval between two lines, in seconds.
const EVERY_S: f64 = 10.0;
/// Minimum interval between two lines, in seconds.
const GAP_S: f64 = 2.0;
/// Number of equal parts of the work; a line is due after each part.
const PARTS: u64 = 10;

/// The lines printed so far.
#[derive(Default)]
pub(super) struct ProgressLines {
    /// The time of the last line in seconds since the beginning, and the part of the work at that time.
    last_s: f64,
    part: u64,
    /// The activities that were already named.
    said: Vec<VolumeActivity>,
    lines: u64,
}

impl ProgressLines {
    /// Returns true if a line is due `now_s` seconds after the beginning, with `done` as the completed and the total
    /// work, and `doing` as the activity. A line that is due is recorded as printed.
    pub(super) fn is_due(&mut self, now_s: f64, done: (u64, u64), doing: VolumeActivity) -> bool {
        let (done, total) = (u128::from(done.0), u128::from(done.1.max(1)));
        let part = (done * u128::from(PARTS) / total) as u64;
        let is_new = !self.said.contains(&doing) && doing != VolumeActivity::Unknown;
        let span = now_s - self.last_s;
        let due = span >= EVERY_S || span >= GAP_S && (part > self.part || is_new);
        if due {
            self.last_s = now_s;
            self.part = part;
            self.lines += 1;
            if is_new {
                self.said.push(doing);
            }
        }
        due
    }

    /// Returns true if any line was printed.
    pub(super) fn was(&self) -> bool {
        self.lines > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times of the lines, for work that is polled five times a second.
    fn lines(seconds: u32, at: impl Fn(f64) -> ((u64, u64), VolumeActivity)) -> Vec<f64> {
        let mut due = ProgressLines::default();
        let times = (1..=seconds * 5).map(|n| f64::from(n) / 5.0);
        let times = times.filter(|now| {
            let (done, doing) = at(*now);
            due.is_due(*now, done, doing)
        });
        times.collect()
    }

    #[test]
    fn slow_work_prints_a_line_every_ten_seconds() {
        let at = lines(35, |now| ((now as u64, 10_000), VolumeActivity::Unknown));
        assert_eq!(at, [10.0, 20.0, 30.0]);
    }

    #[test]
    fn fast_work_prints_a_line_for_each_tenth_and_none_within_two_seconds() {
        let at = lines(40, |now| ((now as u64, 40), VolumeActivity::Unknown));
        assert_eq!(
            at,
            [4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0, 36.0, 40.0]
        );
        assert_eq!(
            lines(2, |now| ((now as u64 * 5, 9), VolumeActivity::Unknown)),
            [2.0]
        );
        assert!(lines(1, |_| ((9, 10), VolumeActivity::Writing)).is_empty());
    }

    #[test]
    fn a_new_activity_is_printed_once_even_if_activities_alternate() {
        let at = lines(22, |now| match now as u64 % 2 {
            0 => ((0, 1), VolumeActivity::Zeroing),
            _ => ((0, 1), VolumeActivity::Writing),
        });
        assert_eq!(at, [2.0, 5.0, 15.0]);
    }
}
