//! How far the volume is on its way from being served to being closed.

use forebay_rt::Instant;

/// What still goes on.
#[derive(Default)]
pub(crate) struct Service {
    /// Since when the volume is being closed.
    closing: Option<Instant>,
    /// Whatever goes home unasked stops.
    stopping: bool,
    /// Destaging may have home writes under way.
    pub(crate) destaging: bool,
    /// The rescue may have home writes under way.
    pub(crate) rescuing: bool,
}

impl Service {
    /// The volume is to be closed. Requests that come from now on fail, and so do those that wait for
    /// room.
    pub(crate) fn close(&mut self, now: Instant) {
        self.closing = Some(now);
    }

    /// Since when the volume is being closed, if it is.
    pub(crate) fn closing(&self) -> Option<Instant> {
        self.closing
    }

    /// What was acknowledged is durable, or cannot be made so. From now on nothing may go home any more
    /// that users do not wait for.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
    }

    /// True once nothing may go home unasked.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }
}
