//! The two kinds of work in a drain: ranges of the data device that are zeroed or discarded, and data that is written
//! there. Their speeds are unrelated: zeroing is a few large requests, data many small ones. Each kind is therefore
//! measured only while it is in progress.

use forebay_control::{RemainingWork, VolumeActivity};
use forebay_units::ByteLen;

use super::estimate::{WorkEstimate, left_in_words};

/// The progress of a drain.
#[derive(Default)]
pub(super) struct DrainEstimate {
    /// The ranges to be zeroed or discarded.
    marks: WorkEstimate,
    data: WorkEstimate,
    doing: VolumeActivity,
}

impl DrainEstimate {
    /// Records the remaining work, `span` seconds after the previous call.
    pub(super) fn look(&mut self, left: &RemainingWork, span: f64) {
        self.doing = left.doing;
        let (marks, data) = if self.doing.is_at_marks() {
            (span, 0.0)
        } else {
            (0.0, span)
        };
        self.marks.look(left.pending_discard_bytes, marks);
        self.data.look(left.unwritten_bytes(), data);
    }

    /// Returns the completed and the total work, in bytes.
    pub(super) fn done(&self) -> (u64, u64) {
        let (marks, data) = (&self.marks, &self.data);
        (marks.done() + data.done(), marks.most() + data.most())
    }

    /// Returns the progress as text.
    pub(super) fn text(&self) -> String {
        let (now, other, of_other) = if self.doing.is_at_marks() {
            (&self.marks, &self.data, "of data")
        } else {
            (&self.data, &self.marks, "to zero or discard")
        };
        let mut text = match self.doing {
            VolumeActivity::Unknown | VolumeActivity::Resting => "waiting",
            VolumeActivity::Retrying => "retrying, the data device fails",
            doing => doing.name(),
        }
        .to_owned();
        if now.most() > 0 {
            let (done, most) = (ByteLen(now.done()), ByteLen(now.most()));
            text.push_str(&format!(", {done} of {most}"));
        }
        if let Some(rate) = now.rate().filter(|_| now.left() > 0) {
            text.push_str(&format!(", {}/s", ByteLen(rate.round() as u64)));
        }
        let rest = match other.left() {
            0 => None,
            left => Some(format!("{} {of_other}", ByteLen(left))),
        };
        let left = match (now.time_left(), other.time_left(), rest) {
            (Some(_), _, None) if now.left() == 0 => return text,
            (Some(now), _, None) => left_in_words(now),
            (Some(now), Some(other), Some(rest)) => {
                format!("{} with {rest}", left_in_words(now + other))
            }
            (Some(_), None, Some(rest)) if now.left() == 0 => format!("then {rest}"),
            (Some(now), None, Some(rest)) => format!("{}, then {rest}", left_in_words(now)),
            (None, _, None) => "time left unknown".into(),
            (None, _, Some(rest)) => format!("time left unknown, then {rest}"),
        };
        format!("{text}, {left}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn left(doing: VolumeActivity, pending: u64, dirty: u64, unflushed: u64) -> RemainingWork {
        RemainingWork {
            dirty_bytes: dirty,
            destage_unflushed_bytes: unflushed,
            pending_discard_bytes: pending,
            doing,
        }
    }

    /// Calls [`DrainEstimate::look`] once a second, for `seconds`.
    fn look(drain: &mut DrainEstimate, seconds: u64, at: impl Fn(u64) -> RemainingWork) {
        for second in 1..=seconds {
            drain.look(&at(second), 1.0);
        }
    }

    /// Found with an emulated disk of 1999 and 140 MiB to drain. For 205 of 239 seconds, while the drain zeroed the
    /// ranges that mkfs had discarded, the progress was 0 bytes with an unknown remaining time, and then 51,788 s.
    #[test]
    fn zeroing_counts_as_work_and_does_not_slow_down_the_estimate_for_data() {
        let mut drain = DrainEstimate::default();
        let (pending, dirty) = (4000 * MIB, 140 * MIB);
        drain.look(&left(VolumeActivity::Reading, pending, dirty, 0), 0.2);
        look(&mut drain, 100, |at| {
            left(VolumeActivity::Zeroing, pending - at * 20 * MIB, dirty, 0)
        });
        assert_eq!(
            drain.text(),
            "zeroing, 2.0GiB of 3.9GiB, 20MiB/s, 2 min left, then 140MiB of data"
        );
        look(&mut drain, 100, |at| {
            left(
                VolumeActivity::Zeroing,
                2000 * MIB - at * 20 * MIB,
                dirty,
                0,
            )
        });
        // Data written to the data device is completed work before it is durable.
        look(&mut drain, 5, |at| {
            left(VolumeActivity::Writing, 0, dirty, at * 4 * MIB)
        });
        assert_eq!(drain.text(), "writing, 20MiB of 140MiB, 4MiB/s, 30 s left");
        let (done, total) = drain.done();
        assert_eq!((done, total), (pending + 20 * MIB, pending + dirty));
        look(&mut drain, 1, |_| {
            left(VolumeActivity::Flushing, 0, dirty, dirty)
        });
        assert_eq!(drain.text(), "flushing, 140MiB of 140MiB");
    }

    #[test]
    fn the_estimates_for_zeroing_and_for_data_are_added() {
        let mut drain = DrainEstimate::default();
        drain.look(&left(VolumeActivity::Zeroing, 200 * MIB, 100 * MIB, 0), 0.0);
        look(&mut drain, 10, |at| {
            left(VolumeActivity::Zeroing, (200 - at * 10) * MIB, 100 * MIB, 0)
        });
        look(&mut drain, 10, |at| {
            left(VolumeActivity::Writing, 100 * MIB, (100 - at) * MIB, 0)
        });
        assert_eq!(
            drain.text(),
            "writing, 10MiB of 100MiB, 1MiB/s, 2 min left with 100MiB to zero or discard"
        );
    }

    #[test]
    fn a_drain_without_progress_reports_the_reason() {
        let mut drain = DrainEstimate::default();
        look(&mut drain, 20, |_| {
            left(VolumeActivity::Retrying, 0, MIB, 0)
        });
        assert_eq!(
            drain.text(),
            "retrying, the data device fails, 0B of 1MiB, time left unknown"
        );
        // A daemon that reports only data.
        look(&mut drain, 1, |_| left(VolumeActivity::Unknown, 0, MIB, 0));
        assert_eq!(drain.text(), "waiting, 0B of 1MiB, time left unknown");
    }
}
