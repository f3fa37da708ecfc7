//! State of background work that must rest, so that the device does not change.

use std::cell::Cell;

use forebay_rt::Event;

/// State of the background work: whether it must rest, and the number of steps in progress.
#[derive(Default)]
pub(crate) struct StillnessState {
    held: Cell<bool>,
    /// True when the checkpoint is complete. Until then it may need more segments.
    complete: Cell<bool>,
    steps: Cell<u32>,
    changed: Event,
}

/// A step of background work in progress, until it is dropped.
pub(crate) struct BackgroundStep<'a>(&'a StillnessState);

impl Drop for BackgroundStep<'_> {
    fn drop(&mut self) {
        self.0.steps.set(self.0.steps.get() - 1);
        self.0.changed.notify_all();
    }
}

impl StillnessState {
    /// Returns true while background work must not begin a step that writes.
    pub(crate) fn is_held(&self) -> bool {
        self.held.get()
    }

    /// Returns true while the allocation queue must not be extended.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete.get()
    }

    /// Counts a step as in progress until the result is dropped.
    pub(crate) fn begin_step(&self) -> BackgroundStep<'_> {
        self.steps.set(self.steps.get() + 1);
        BackgroundStep(self)
    }

    /// Waits until background work may begin a step.
    pub(crate) async fn until_free(&self) {
        let free = || (!self.held.get()).then_some(());
        self.changed.until(free).await;
    }

    /// Waits until free segments may be discarded, and checkpoints made.
    pub(crate) async fn until_changes(&self) {
        let free = || (!self.complete.get()).then_some(());
        self.changed.until(free).await;
    }

    /// Lets no step begin from now on.
    pub(crate) fn hold(&self) {
        self.held.set(true);
    }

    /// Waits until the steps in progress have ended. Returns false if background work may continue before.
    pub(crate) async fn until_idle(&self) -> bool {
        let idle = || match (self.held.get(), self.steps.get()) {
            (false, _) => Some(false),
            (true, 0) => Some(true),
            (true, _) => None,
        };
        self.changed.until(idle).await
    }

    /// Notes that the checkpoint is complete, unless background work may continue already.
    pub(crate) fn complete(&self) {
        self.complete.set(self.held.get());
    }

    /// Lets background work continue.
    pub(crate) fn release(&self) {
        self.held.set(false);
        self.complete.set(false);
        self.changed.notify_all();
    }
}
