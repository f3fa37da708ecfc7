//! Why a volume stays as it is.

use crate::Cause;

/// Why a volume stays as it is, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct NotDone {
    /// What stands in the way.
    pub cause: Cause,
    pub(crate) text: String,
}

impl NotDone {
    pub(crate) fn new(cause: Cause, why: impl std::fmt::Display) -> NotDone {
        let text = why.to_string();
        NotDone { cause, text }
    }

    /// A write cache on a device has no placement.
    pub(crate) fn places_nothing() -> NotDone {
        let text = "a write cache on a device has no placement: log-structured volumes and filesystems have one";
        NotDone::new(Cause::Usage, text)
    }

    /// The choice of a filesystem's placement does not follow from costs alone.
    pub(crate) fn does_not_choose() -> NotDone {
        let text = "a filesystem does not choose its placement itself: name one";
        NotDone::new(Cause::Usage, text)
    }
}
