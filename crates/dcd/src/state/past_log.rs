//! What went past the log to the data device, and whether it is durable there.

use std::sync::Arc;

use forebay_device::DeviceError;

/// Changes of the data device that have no copy in the log.
///
/// They are counted and not flagged: what completes while a flush is under way needs another.
#[derive(Default)]
pub(crate) struct PastLog {
    /// How many have completed that need a flush of the data device.
    completed: u64,
    /// How many of them had one.
    durable: u64,
    /// Why some of them may be lost. A flush that they needed failed, and a later one that succeeds does
    /// not say that they are there; so nothing is acknowledged as durable after that.
    lost: Option<Arc<str>>,
    /// How many flushes of the data device failed.
    flushes_failed: u64,
    /// How many were begun, and which of them was the last to succeed.
    flushes_begun: u64,
    flushed_newest: u64,
}

impl PastLog {
    /// A change has completed that needs a flush.
    pub(crate) fn note(&mut self) {
        self.completed += 1;
    }

    /// True if something needs a flush.
    pub(crate) fn needs_flush(&self) -> bool {
        self.durable < self.completed
    }

    /// How many flushes were begun.
    pub(crate) fn flushes_begun(&self) -> u64 {
        self.flushes_begun
    }

    /// True if one has succeeded that was begun after so many.
    pub(crate) fn flushed_since(&self, begun: u64) -> bool {
        self.flushed_newest > begun
    }

    /// A flush begins. Says what it covers.
    pub(crate) fn begin_flush(&mut self) -> u64 {
        self.flushes_begun += 1;
        self.completed
    }

    /// The flush that was begun last, when so many had completed, has succeeded.
    pub(crate) fn flushed(&mut self, covered: u64) {
        self.flushed_newest = self.flushes_begun;
        self.durable = self.durable.max(covered);
    }

    /// A flush of the data device failed; true if something may be lost by that.
    pub(crate) fn flush_failed(&mut self, error: &DeviceError) -> bool {
        self.flushes_failed += 1;
        let lost = self.needs_flush();
        if lost {
            let cause = format!("a flush of the data device failed: {error}");
            self.lost = Some(cause.into());
        }
        lost
    }

    /// Why something may be lost, once that is so.
    pub(crate) fn lost(&self) -> Option<Arc<str>> {
        self.lost.clone()
    }

    /// How many flushes of the data device failed. One may lose all that was written and not flushed,
    /// and not only what it was issued for: whoever writes before it and flushes after it has nothing.
    pub(crate) fn flushes_failed(&self) -> u64 {
        self.flushes_failed
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use forebay_device::Op;

    use super::*;

    fn error() -> DeviceError {
        DeviceError::io(Op::Flush, 0..0, ErrorKind::Other.into())
    }

    #[test]
    fn what_completes_while_a_flush_is_under_way_needs_another() {
        let mut past = PastLog::default();
        assert!(!past.needs_flush());
        past.note();
        let covered = past.begin_flush();
        past.note();
        past.flushed(covered);
        assert!(past.needs_flush());
        let covered = past.begin_flush();
        past.flushed(covered);
        assert!(!past.needs_flush());
    }

    #[test]
    fn a_flush_that_begins_later_is_as_good_as_ones_own_and_one_under_way_is_not() {
        let mut past = PastLog::default();
        let covered = past.begin_flush();
        let asked = past.flushes_begun();
        past.flushed(covered);
        assert!(!past.flushed_since(asked));
        let covered = past.begin_flush();
        assert!(!past.flushed_since(asked));
        past.flushed(covered);
        assert!(past.flushed_since(asked));
    }

    #[test]
    fn what_a_failed_flush_was_needed_for_stays_lost_though_later_ones_succeed() {
        let mut past = PastLog::default();
        past.note();
        assert!(past.flush_failed(&error()));
        let covered = past.begin_flush();
        past.flushed(covered);
        assert!(past.lost().is_some() && !past.needs_flush());
    }

    #[test]
    fn a_failed_flush_that_nothing_past_the_log_needed_is_counted_and_loses_nothing() {
        let mut past = PastLog::default();
        assert!(!past.flush_failed(&error()));
        assert_eq!((past.lost(), past.flushes_failed()), (None, 1));
    }
}
