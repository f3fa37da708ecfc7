//! Reasons why a write cache cannot be used.

use forebay_dcd::{DcdAttachError, InspectError, SalvageError, SuccessorError};
use forebay_ring_log::{LogOpenError, PairError};

use crate::DeviceSpecError;
use crate::error::KindError;
use crate::error_cause::ErrorCause;

/// Reason why a write cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CacheError {
    /// The configuration file describes a cache over another cache.
    #[error(
        "the data {0} is a write cache itself; a cache over a cache is not supported yet: name a device, or a \
         log-structured volume"
    )]
    LayerBelow(String),
    /// The log does not belong to a cache over this log-structured volume.
    #[error(
        "the log {log} belongs to {want}, and the data {data} is {have}; name the right devices"
    )]
    OtherBelow {
        /// The log, as given.
        log: String,
        /// The data device, as given.
        data: String,
        /// The data that the log belongs to.
        want: String,
        /// The data that the data device holds.
        have: String,
    },
    /// The device named as the log is not a log, or cannot be read.
    #[error("cannot use {log} as a Forebay log: {error}")]
    NotALog {
        /// The log, as given.
        log: String,
        /// The cause.
        error: InspectError,
    },
    /// Data that was lost with a log cannot be salvaged.
    #[error("cannot salvage {log} (data {data}): {error}")]
    Salvage {
        /// The log, as given.
        log: String,
        /// The data device, as given.
        data: String,
        /// The cause.
        error: SalvageError,
    },
    /// Salvage does not support the log of a cache over a log-structured volume.
    #[error("{0} is the log of a cache over a log-structured volume, which cannot be salvaged yet")]
    SalvageOver(String),
    /// The log of a copy holds data, or was abandoned.
    #[error(
        "the log {0} is not empty, so the copy cannot get another id: freeze the original while its devices are copied, \
         or detach it before"
    )]
    NotEmpty(String),
    /// A volume whose log is out of use gets no other log.
    #[error("cannot make a new log on {log}: {error}")]
    Successor {
        /// The new log, as given.
        log: String,
        /// The cause.
        error: SuccessorError,
    },
    /// The data device that the log records is not a path.
    #[error(
        "the log {log} records its data device as {path}, which is not a path ({error}); name the data device with \
         --data PATH"
    )]
    Remembered {
        /// The log, as given.
        log: String,
        /// The recorded text.
        path: String,
        /// Reason why the text is not a path.
        error: DeviceSpecError,
    },
    /// The write cache cannot be attached.
    #[error("cannot attach {log} (data {data}): {error}")]
    Attach {
        /// The log, as given.
        log: String,
        /// The data device, as given.
        data: String,
        /// The cause.
        error: DcdAttachError,
    },
}

impl KindError for CacheError {
    fn class(&self) -> ErrorCause {
        match self {
            CacheError::LayerBelow(_) => ErrorCause::Usage,
            CacheError::NotALog {
                error: InspectError::Witness(_),
                ..
            } => ErrorCause::Refused,
            CacheError::NotALog {
                error: InspectError::Device(_) | InspectError::Log(LogOpenError::Device(_)),
                ..
            } => ErrorCause::Device,
            CacheError::SalvageOver(_) | CacheError::NotALog { .. } => ErrorCause::NotFound,
            CacheError::Remembered { .. } => ErrorCause::General,
            CacheError::OtherBelow { .. } | CacheError::NotEmpty(_) => ErrorCause::Refused,
            CacheError::Salvage { error, .. } => match error {
                SalvageError::Device(_) => ErrorCause::Device,
                _ => ErrorCause::Refused,
            },
            CacheError::Successor { error, .. } => match error {
                SuccessorError::Unfit(_) => ErrorCause::Usage,
                SuccessorError::Format(_) | SuccessorError::Data(DcdAttachError::Device(_)) => {
                    ErrorCause::Device
                }
                _ => ErrorCause::Refused,
            },
            CacheError::Attach { error, .. } => match error {
                DcdAttachError::Log(error) => cause_in_log(error),
                DcdAttachError::NotOurs => ErrorCause::NotFound,
                DcdAttachError::Device(_) => ErrorCause::Device,
                _ => ErrorCause::Refused,
            },
        }
    }
}

/// Returns the class of an error in attaching a log.
fn cause_in_log(error: &LogOpenError) -> ErrorCause {
    match error {
        LogOpenError::Damaged(_) => ErrorCause::Loss,
        LogOpenError::Device(_) => ErrorCause::Device,
        LogOpenError::Superblocks(PairError::NoSuperblock { .. }) => ErrorCause::NotFound,
        _ => ErrorCause::Refused,
    }
}
