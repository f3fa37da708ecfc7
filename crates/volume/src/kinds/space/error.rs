//! Reasons why a log-structured volume cannot be used.

use forebay_segment_log::{FormatError, PairError};
use forebay_vsl::SpaceOpenError;

use super::hint::hint;
use crate::error::{KindError, VolumeError};
use crate::error_cause::ErrorCause;
use crate::spec::DeviceSpec;

/// Reason why a log-structured volume cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpaceVolumeError {
    /// The device named as a log-structured volume is not a log-structured volume, or cannot be read.
    #[error("cannot use {data} as a log-structured volume: {error}{}", hint(error))]
    NotASpace {
        /// The device, as given.
        data: String,
        /// The cause.
        error: SpaceOpenError,
    },
    /// A block device was requested, but the device holds a filesystem.
    #[error(
        "{0} holds a filesystem, not a block device: mount it with: forebay mount --data {0} DIR"
    )]
    HoldsFiles(String),
    /// The log-structured volume cannot be attached.
    #[error("cannot attach {data}: {error}{}", hint(error))]
    Attach {
        /// The device, as given.
        data: String,
        /// The cause.
        error: SpaceOpenError,
    },
}

impl SpaceVolumeError {
    /// Returns the error for a device that was named as a log-structured volume, but cannot be read or is not such a
    /// volume.
    pub(crate) fn not_a_space(data: &DeviceSpec, error: SpaceOpenError) -> VolumeError {
        let path = data.to_string();
        match error {
            SpaceOpenError::Device(error) => VolumeError::Read { path, error },
            error => SpaceVolumeError::NotASpace { data: path, error }.into(),
        }
    }
}

impl KindError for SpaceVolumeError {
    fn class(&self) -> ErrorCause {
        match self {
            SpaceVolumeError::HoldsFiles(_) => ErrorCause::Usage,
            SpaceVolumeError::NotASpace { error, .. } => match error {
                SpaceOpenError::Superblocks(PairError::NoSuperblock {
                    a: FormatError::Unreadable(_),
                    ..
                }) => ErrorCause::Device,
                _ => ErrorCause::NotFound,
            },
            SpaceVolumeError::Attach { error, .. } => match error {
                SpaceOpenError::Damaged { .. } => ErrorCause::Loss,
                SpaceOpenError::Device(_) | SpaceOpenError::Failed(_) => ErrorCause::Device,
                SpaceOpenError::Superblocks(PairError::NoSuperblock { .. }) => ErrorCause::NotFound,
                _ => ErrorCause::Refused,
            },
        }
    }
}
