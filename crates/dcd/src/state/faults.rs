//! What the two devices fail to do, and what was said about it.

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::Instant;
use forebay_units::{RecordSeq, SegmentSeq};

/// What goes on with one device: since when it fails, and with what.
#[derive(Default)]
pub(crate) struct Trouble(Option<(Instant, Arc<str>)>);

impl Trouble {
    /// Notes a failure; the trouble began with the first since it was last over.
    pub(crate) fn note(&mut self, now: Instant, cause: impl Into<Arc<str>>) {
        let since = self.0.as_ref().map_or(now, |(since, _)| *since);
        self.0 = Some((since, cause.into()));
    }

    /// What failed works again.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// The last failure, while it lasts.
    pub(crate) fn cause(&self) -> Option<Arc<str>> {
        self.0.as_ref().map(|(_, cause)| Arc::clone(cause))
    }

    fn patience_ends(&self, patience: Duration) -> Option<(Instant, Arc<str>)> {
        let (since, cause) = self.0.as_ref()?;
        Some((since.plus(patience), Arc::clone(cause)))
    }
}

/// What is wrong with the devices of a volume.
#[derive(Default)]
pub(crate) struct Faults {
    /// The data device does not take what is to go home.
    pub(crate) data: Trouble,
    /// The log device does not give back what it holds, or cannot be marked.
    pub(crate) log: Trouble,
    /// Bytes in the log that could not be read when it was tried last.
    pub(crate) unreadable: u64,
    /// Discards up to this record were done out of ring order, because the data device was full.
    pub(crate) discarded_ahead: Option<RecordSeq>,
    /// An administrator said that what cannot be read in the segments before this one is to be given up.
    give_up_before: Option<SegmentSeq>,
}

impl Faults {
    /// When patience with the oldest trouble ends, and what that is. A volume that has been closing
    /// since some time is no longer waited for either.
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

    /// What cannot be read in the segments before this one is to be given up once it was tried again.
    pub(crate) fn give_up(&mut self, before: SegmentSeq) {
        self.give_up_before = Some(before);
    }

    /// True if what cannot be read is to be given up.
    pub(crate) fn gives_up(&self) -> bool {
        self.give_up_before.is_some()
    }

    /// Before which segment what cannot be read is to be given up, if it is: what was written since nobody
    /// has given up.
    pub(crate) fn gives_up_before(&self) -> Option<SegmentSeq> {
        self.give_up_before
    }

    /// True if segments from `tail` on are to be read first, and what cannot be read of them given up.
    pub(crate) fn gives_up_from(&self, tail: SegmentSeq) -> bool {
        self.give_up_before.is_some_and(|before| tail < before)
    }

    /// Segments from `start` on are about to go home, and all of them was read or not. The word to give
    /// up was for what was unreadable then: it ends where something could be read again, and with the
    /// segments there were.
    pub(crate) fn was_read(&mut self, start: SegmentSeq, all: bool) {
        if all || !self.gives_up_from(start) {
            self.give_up_before = None;
        }
    }

    /// There is nothing left to give up.
    pub(crate) fn all_is_read(&mut self) {
        self.give_up_before = None;
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
    fn trouble_counts_from_its_first_failure_and_is_told_by_its_last() {
        let mut trouble = Trouble::default();
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
    fn patience_ends_with_the_oldest_trouble_or_when_closing_takes_too_long() {
        let mut faults = Faults::default();
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
    fn the_word_to_give_up_holds_for_the_segments_there_were_until_they_can_be_read() {
        let mut faults = Faults::default();
        assert!(!faults.gives_up());
        faults.give_up(SegmentSeq(5));
        faults.was_read(SegmentSeq(4), false);
        assert!(faults.gives_up() && faults.gives_up_from(SegmentSeq(4)));
        assert!(!faults.gives_up_from(SegmentSeq(5)));
        faults.was_read(SegmentSeq(5), false);
        assert!(!faults.gives_up());
        faults.give_up(SegmentSeq(9));
        faults.was_read(SegmentSeq(1), true);
        assert!(!faults.gives_up());
    }
}
