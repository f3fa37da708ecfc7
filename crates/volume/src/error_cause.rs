//! The class of an error, as far as programs distinguish errors.

/// Class of an error, as far as programs distinguish errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorCause {
    /// Any other cause.
    General,
    /// The request is impossible.
    Usage,
    /// A named object is missing, or is not of the expected kind.
    NotFound,
    /// Continuing could lose or mix up data, or the object is in use.
    Refused,
    /// Continuing would abandon data that is missing from a log. An administrator can accept the loss.
    Loss,
    /// A device failed.
    Device,
}
