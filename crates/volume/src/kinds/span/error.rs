//! Reasons why a span cannot be used.

use forebay_segment_log::PairError;

use crate::error::KindError;
use crate::error_cause::ErrorCause;

/// Reason why a span cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpanError {
    /// The device is not the device of a span in this position.
    #[error("cannot use {path} as the {role} device of a span: {error}")]
    NotASpan {
        /// The device, as given.
        path: String,
        /// Role.
        role: &'static str,
        /// The cause.
        error: PairError,
    },
    /// The two devices do not belong together.
    #[error("{first} and {second} are not the two devices of one span; name the right devices")]
    NotTogether {
        /// The first device, as given.
        first: String,
        /// The second device, as given.
        second: String,
    },
    /// A device is shorter than its part of the span.
    #[error(
        "{path} has {have} bytes, but its part of the span ends at {need}; give the device its length back"
    )]
    Truncated {
        /// The device, as given.
        path: String,
        /// Length of the device in bytes.
        have: u64,
        /// Necessary length in bytes.
        need: u64,
    },
    /// The path of the second device is not recorded.
    #[error("{path} records no usable path of the second device; name it with --second PATH")]
    NotRemembered {
        /// The first device, as given.
        path: String,
    },
}

impl KindError for SpanError {
    fn class(&self) -> ErrorCause {
        match self {
            SpanError::NotASpan { .. } => ErrorCause::NotFound,
            SpanError::NotTogether { .. } | SpanError::Truncated { .. } => ErrorCause::Refused,
            SpanError::NotRemembered { .. } => ErrorCause::General,
        }
    }
}
