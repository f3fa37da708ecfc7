//! Reasons why an operation did not change a volume.

use crate::Cause;

/// Reason, in words, why an operation did not change a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct NotDone {
    /// Class of the error.
    pub cause: Cause,
    pub(crate) text: String,
}

impl NotDone {
    pub(crate) fn new(cause: Cause, why: impl std::fmt::Display) -> NotDone {
        let text = why.to_string();
        NotDone { cause, text }
    }

    /// Returns the error for a write cache on a device, which has no placement.
    pub(crate) fn places_nothing() -> NotDone {
        let text = "a write cache on a device has no placement: log-structured volumes and filesystems have one";
        NotDone::new(Cause::Usage, text)
    }

    /// Returns the error for a filesystem, which does not choose its placement: the choice does not follow from costs
    /// alone.
    pub(crate) fn does_not_choose() -> NotDone {
        let text = "a filesystem does not choose its placement itself: name one";
        NotDone::new(Cause::Usage, text)
    }
}
