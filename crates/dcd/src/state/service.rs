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
}

impl BackgroundWork {
    /// Begins to close the volume. New requests fail from now on, and so do those that wait for free space.
    pub(crate) fn close(&mut self, now: Instant) {
        self.closing = Some(now);
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
