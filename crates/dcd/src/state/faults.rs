//! Current faults of both devices, and an administrator's command about them.

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::Instant;
use forebay_units::{RecordSeq, SegmentSeq};

/// The fault of one device: its beginning and its last cause. Empty while the device works.
#[derive(Default)]
pub(crate) struct DeviceFaultState(Option<(Instant, Arc<str>)>);

impl DeviceFaultState {
    /// Records a failure. The fault begins with the first failure since the last [`DeviceFaultState::clear`].
    pub(crate) fn note(&mut self, now: Instant, cause: impl Into<Arc<str>>) {
        let since = self.0.as_ref().map_or(now, |(since, _)| *since);
        self.0 = Some((since, cause.into()));
    }

    /// Ends the fault, since the device works again.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// Returns the last failure of a fault that lasts.
    pub(crate) fn cause(&self) -> Option<Arc<str>> {
        self.0.as_ref().map(|(_, cause)| Arc::clone(cause))
    }

    fn patience_ends(&self, patience: Duration) -> Option<(Instant, Arc<str>)> {
        let (since, cause) = self.0.as_ref()?;
        Some((since.plus(patience), Arc::clone(cause)))
    }
}

/// Faults of the devices of a volume.
#[derive(Default)]
pub(crate) struct CacheFaults {
    /// Failure of the data device to take destaged data.
    pub(crate) data: DeviceFaultState,
    /// Failure of the log device to return data, or to be marked.
    pub(crate) log: DeviceFaultState,
    /// Bytes in the log that could not be read at the last attempt.
    pub(crate) unreadable: u64,
    /// Newest record whose discard was carried out before its position in the ring, because the data device was full.
    pub(crate) discarded_ahead: Option<RecordSeq>,
    /// Limit of an administrator's abandon command: unreadable data in segments before this one is abandoned.
    abandon_before: Option<SegmentSeq>,
}

impl CacheFaults {
    /// Returns when the patience with the oldest fault ends, and the cause of this fault. The time since the volume
    /// began to close counts as a fault too.
    pub(crate) fn patience_ends(
        &self,
        patience: Duration,
        closing: Option<Instant>,
    ) -> Option<(Instant, Arc<str>)> {
        let troubles = [&self.data, &self.log];
        let ends = troubles.map(|trouble| trouble.patience_ends(patience));
        let closing = closing.map(|at| {
            let cause = "the volume is being closed".into();
            (at.plus(patience), cause)
        });
        let ends = ends.into_iter().flatten().chain(closing);
        ends.min_by_key(|(at, _)| *at)
    }

    /// Records the command to abandon unreadable data in the segments before this one. The data is tried once more
    /// first.
    pub(crate) fn abandon_unreadable(&mut self, before: SegmentSeq) {
        self.abandon_before = Some(before);
    }

    /// Returns true if unreadable data must be abandoned.
    pub(crate) fn is_abandoning(&self) -> bool {
        self.abandon_before.is_some()
    }

    /// Returns the limit of an abandon command. Unreadable data in segments before it may be declared lost; later
    /// segments are not covered.
    pub(crate) fn abandon_limit(&self) -> Option<SegmentSeq> {
        self.abandon_before
    }

    /// Returns true if the abandon command covers the segment at `tail`. Such segments are read first, and their
    /// unreadable data is abandoned.
    pub(crate) fn abandons_from(&self, tail: SegmentSeq) -> bool {
        self.abandon_before.is_some_and(|before| tail < before)
    }

    /// Records that segments from `start` on are about to be destaged, and whether all of them could be read. The
    /// abandon command covers only data that was unreadable at that time. So the command ends when a window can be read
    /// again, and behind its last segment.
    pub(crate) fn was_read(&mut self, start: SegmentSeq, all: bool) {
        if all || !self.abandons_from(start) {
            self.abandon_before = None;
        }
    }

    /// Ends the abandon command: no unreadable data is left.
    pub(crate) fn all_is_read(&mut self) {
        self.abandon_before = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Instant {
        Instant::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn patience_counts_from_the_first_failure_and_the_last_failure_is_reported() {
        let mut trouble = DeviceFaultState::default();
        assert_eq!(trouble.cause(), None);
        trouble.note(at(1), "one");
        trouble.note(at(9), "two");
        assert_eq!(
            trouble.patience_ends(PATIENCE),
            Some((at(61), Arc::from("two")))
        );
        trouble.clear();
        assert_eq!(trouble.patience_ends(PATIENCE), None);
        trouble.note(at(20), "three");
        assert_eq!(trouble.patience_ends(PATIENCE).unwrap().0, at(80));
    }

    #[test]
    fn patience_ends_with_the_oldest_fault_or_when_closing_takes_too_long() {
        let mut faults = CacheFaults::default();
        assert_eq!(faults.patience_ends(PATIENCE, None), None);
        faults.log.note(at(5), "log");
        faults.data.note(at(3), "data");
        assert_eq!(
            faults.patience_ends(PATIENCE, Some(at(4))),
            Some((at(63), Arc::from("data")))
        );
        faults.data.clear();
        let (end, cause) = faults.patience_ends(PATIENCE, Some(at(4))).unwrap();
        assert_eq!((end, &*cause), (at(64), "the volume is being closed"));
    }

    #[test]
    fn permission_to_abandon_covers_existing_segments_until_they_can_be_read() {
        let mut faults = CacheFaults::default();
        assert!(!faults.is_abandoning());
        faults.abandon_unreadable(SegmentSeq(5));
        faults.was_read(SegmentSeq(4), false);
        assert!(faults.is_abandoning() && faults.abandons_from(SegmentSeq(4)));
        assert!(!faults.abandons_from(SegmentSeq(5)));
        faults.was_read(SegmentSeq(5), false);
        assert!(!faults.is_abandoning());
        faults.abandon_unreadable(SegmentSeq(9));
        faults.was_read(SegmentSeq(1), true);
        assert!(!faults.is_abandoning());
    }
}
