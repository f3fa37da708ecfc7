//! Changes of the data device that bypassed the log, and their durability.

use std::sync::Arc;

use forebay_device::DeviceError;

/// Changes of the data device that have no copy in the log.
///
/// They are counted instead of flagged: a change that completes during a flush needs another flush.
#[derive(Default)]
pub(crate) struct UnloggedChanges {
    /// Number of completed changes that need a flush of the data device.
    completed: u64,
    /// Number of these changes that are durable.
    durable: u64,
    /// Reason why some changes may be lost. A flush that they needed failed, and a later successful flush does not
    /// prove that they are on the device. So no flush is acknowledged after that.
    lost: Option<Arc<str>>,
    /// Number of failed flushes of the data device.
    flushes_failed: u64,
    /// Number of flushes begun, and the number of the last successful one.
    flushes_begun: u64,
    flushed_newest: u64,
}

impl UnloggedChanges {
    /// Counts a completed change that needs a flush.
    pub(crate) fn note(&mut self) {
        self.completed += 1;
    }

    /// Returns true if a completed change needs a flush.
    pub(crate) fn needs_flush(&self) -> bool {
        self.durable < self.completed
    }

    /// Returns the number of flushes begun.
    pub(crate) fn flushes_begun(&self) -> u64 {
        self.flushes_begun
    }

    /// Returns true if a flush has succeeded that was begun after the first `begun` flushes.
    pub(crate) fn flushed_since(&self, begun: u64) -> bool {
        self.flushed_newest > begun
    }

    /// Begins a flush. Returns the number of changes that it covers.
    pub(crate) fn begin_flush(&mut self) -> u64 {
        self.flushes_begun += 1;
        self.completed
    }

    /// Records that the flush begun last has succeeded. It covers the first `covered` changes.
    pub(crate) fn flushed(&mut self, covered: u64) {
        self.flushed_newest = self.flushes_begun;
        self.durable = self.durable.max(covered);
    }

    /// Records that a flush of the data device failed. Returns true if changes may be lost by this.
    pub(crate) fn flush_failed(&mut self, error: &DeviceError) -> bool {
        self.flushes_failed += 1;
        let lost = self.needs_flush();
        if lost {
            let cause = format!("a flush of the data device failed: {error}");
            self.lost = Some(cause.into());
        }
        lost
    }

    /// Returns why changes may be lost, once a flush failed that they needed.
    pub(crate) fn lost(&self) -> Option<Arc<str>> {
        self.lost.clone()
    }

    /// Returns the number of failed flushes of the data device. A failed flush may lose all data that was written and
    /// not flushed, not only the data of its caller. So a task that wrote before a failed flush cannot rely on a later
    /// flush.
    pub(crate) fn flushes_failed(&self) -> u64 {
        self.flushes_failed
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use forebay_device::DeviceOp;

    use super::*;

    fn error() -> DeviceError {
        DeviceError::io(DeviceOp::Flush, 0..0, ErrorKind::Other.into())
    }

    #[test]
    fn a_change_that_completes_during_a_flush_needs_another_flush() {
        let mut past = UnloggedChanges::default();
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
    fn a_flush_begun_after_the_request_satisfies_it_and_an_earlier_flush_does_not() {
        let mut past = UnloggedChanges::default();
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
    fn a_change_lost_by_a_failed_flush_stays_lost_after_later_flushes_succeed() {
        let mut past = UnloggedChanges::default();
        past.note();
        assert!(past.flush_failed(&error()));
        let covered = past.begin_flush();
        past.flushed(covered);
        assert!(past.lost().is_some() && !past.needs_flush());
    }

    #[test]
    fn a_failed_flush_without_unlogged_changes_is_counted_and_loses_nothing() {
        let mut past = UnloggedChanges::default();
        assert!(!past.flush_failed(&error()));
        assert_eq!((past.lost(), past.flushes_failed()), (None, 1));
    }
}
