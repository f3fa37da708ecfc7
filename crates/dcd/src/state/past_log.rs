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
}

impl PastLog {
    /// A change has completed that needs a flush.
    pub(crate) fn note(&mut self) {
        self.completed += 1;
    }

    /// How many have completed: what a flush that is issued now covers.
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// True if something needs a flush.
    pub(crate) fn needs_flush(&self) -> bool {
        self.durable < self.completed
    }

    /// A flush has succeeded that was issued when so many had completed.
    pub(crate) fn flushed(&mut self, covered: u64) {
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
        let covered = past.completed();
        past.note();
        past.flushed(covered);
        assert!(past.needs_flush());
        past.flushed(past.completed());
        assert!(!past.needs_flush());
    }

    #[test]
    fn a_flush_that_was_overtaken_takes_nothing_back() {
        let mut past = PastLog::default();
        past.note();
        past.flushed(1);
        past.flushed(0);
        assert!(!past.needs_flush());
    }

    #[test]
    fn what_a_failed_flush_was_needed_for_stays_lost_though_later_ones_succeed() {
        let mut past = PastLog::default();
        past.note();
        assert!(past.flush_failed(&error()));
        past.flushed(past.completed());
        assert!(past.lost().is_some() && !past.needs_flush());
    }

    #[test]
    fn a_failed_flush_that_nothing_past_the_log_needed_is_counted_and_loses_nothing() {
        let mut past = PastLog::default();
        assert!(!past.flush_failed(&error()));
        assert_eq!((past.lost(), past.flushes_failed()), (None, 1));
    }
}
