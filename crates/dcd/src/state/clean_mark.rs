//! The mark of an empty log while the volume is attached.

use std::cell::Cell;

use forebay_rt::Event;

/// State of the mark in the superblock that the log is empty. Nothing may be appended to a marked log, since recovery
/// would ignore it.
#[derive(Default)]
pub(crate) struct CleanMark {
    /// True while the devices are held still.
    held: Cell<bool>,
    /// True while the superblock contains the mark, or may contain it.
    marked: Cell<bool>,
    /// Number of times that the mark was written.
    count: Cell<u64>,
    changed: Event,
}

impl CleanMark {
    /// Begins to hold the devices still.
    pub(crate) fn hold(&self) {
        self.held.set(true);
    }

    /// Returns true while the devices are held still.
    pub(crate) fn is_held(&self) -> bool {
        self.held.get()
    }

    /// Notes that the mark is about to be written. Writers wait from now on.
    pub(crate) fn mark(&self) {
        self.marked.set(true);
        self.count.set(self.count.get() + 1);
    }

    /// Lets the log be used again as soon as the mark is removed.
    pub(crate) fn release(&self) {
        self.held.set(false);
        self.changed.notify_all();
    }

    /// Notes that mark number `count` was removed from the superblock. Writers continue, unless the mark is written
    /// again.
    pub(crate) fn removed(&self, count: u64) {
        self.marked.set(self.count.get() != count);
        self.changed.notify_all();
    }

    /// Returns true while writers must wait.
    pub(crate) fn is_marked(&self) -> bool {
        self.marked.get()
    }

    /// Waits until the mark must be removed. Returns its number.
    pub(crate) async fn until_unwanted(&self) -> u64 {
        let unwanted = || (self.marked.get() && !self.held.get()).then(|| self.count.get());
        self.changed.until(unwanted).await
    }

    /// Waits until nothing holds writers back, or `ends` returns true.
    pub(crate) async fn until_removed(&self, ends: impl Fn() -> bool) {
        let removed = || (!self.marked.get() || ends()).then_some(());
        self.changed.until(removed).await;
    }

    /// Wakes all waiting tasks, since the volume is being closed.
    pub(crate) fn closing(&self) {
        self.changed.notify_all();
    }
}
