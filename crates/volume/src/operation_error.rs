//! Reasons why an operation did not change a volume.

use crate::error_cause::ErrorCause;

/// Reason, in words, why an operation did not change a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct OperationError {
    /// Class of the error.
    pub cause: ErrorCause,
    pub(crate) text: String,
}

impl OperationError {
    pub(crate) fn new(cause: ErrorCause, why: impl std::fmt::Display) -> OperationError {
        let text = why.to_string();
        OperationError { cause, text }
    }

    /// Returns the error for a write cache on a device, which has no placement.
    pub(crate) fn places_nothing() -> OperationError {
        let text = "a write cache on a device has no placement: only log-structured volumes and filesystems have a \
                    placement";
        OperationError::new(ErrorCause::Usage, text)
    }

    /// Returns the error for a filesystem, which does not choose its placement: the choice does not follow from costs
    /// alone.
    pub(crate) fn does_not_choose() -> OperationError {
        let text = "a filesystem does not choose its placement itself: name a placement";
        OperationError::new(ErrorCause::Usage, text)
    }
}
