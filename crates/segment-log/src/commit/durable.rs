//! The newest durable record, the time since which it is durable, and waiting for a newer one.

use forebay_rt::{EventListener, Instant};
use forebay_units::RecordSeq;

use super::CommitPipeline;
use super::composer::{RecordComposer, WriteWatcher};

impl<C: RecordComposer, W: WriteWatcher<C>> CommitPipeline<C, W> {
    /// Records that every record up to `covered` is durable now.
    pub(super) fn set_stable(&self, covered: RecordSeq) {
        let mut composer = self.composer_mut();
        let before = composer.flight().stable();
        composer.set_stable(covered);
        if composer.flight().stable() > before {
            self.stable_since.set(self.rt.now());
        }
    }

    /// Returns the newest durable record, and the time since which it is known to be durable.
    pub fn newest_stable(&self) -> (RecordSeq, Instant) {
        let stable = self.composer().flight().stable();
        (stable, self.stable_since.get())
    }

    /// Returns a listener that resolves when a record becomes durable, or the log fails or is stopped. The caller must
    /// take the listener before it reads [`CommitPipeline::newest_stable`].
    pub fn durable(&self) -> EventListener<'_> {
        self.durable.listen()
    }
}
