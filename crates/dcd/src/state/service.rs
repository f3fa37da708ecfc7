//! State of closing the volume.

use forebay_rt::Instant;

/// Background work that is still active.
#[derive(Default)]
pub(crate) struct BackgroundWork {
    /// Time when the volume began to close.
    closing: Option<Instant>,
    /// True once background work must no longer write to the data device.
    stopping: bool,
    /// True if destaging may have writes to the data device under way.
    pub(crate) destaging: bool,
    /// True if the rescue may have writes to the data device under way.
    pub(crate) rescuing: bool,
    /// True while a task waits until no request is under way, to replace the log.
    pub(crate) awaits_quiet: bool,
}

impl BackgroundWork {
    /// Begins to close the volume. New requests fail from now on, and so do those that wait for free space.
    pub(crate) fn close(&mut self, now: Instant) {
        self.closing.get_or_insert(now);
    }

    /// Returns true while a task waits until no request is under way.
    pub(crate) fn awaits_end_of_requests(&self) -> bool {
        self.closing.is_some() || self.awaits_quiet
    }

    /// Returns the time when the volume began to close.
    pub(crate) fn closing(&self) -> Option<Instant> {
        self.closing
    }

    /// Stops background work, once all acknowledged data is durable or cannot be made durable. From now on only
    /// requests that clients wait for may write to the data device.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Returns true once background work must no longer write to the data device.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }
}
