//! Reasons why a filesystem cannot be used.

use forebay_dfs::{FsError, FsOpenError};

use crate::error::KindError;
use crate::error_cause::ErrorCause;

/// Reason why a filesystem cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    /// The device named as a filesystem is not a filesystem.
    #[error("cannot use {data} as a filesystem: {error}")]
    NotFiles {
        /// The device, as given.
        data: String,
        /// The cause.
        error: FsOpenError,
    },
    /// The structures of a filesystem cannot be read.
    #[error("cannot read the filesystem on {path}: {error}")]
    Read {
        /// The device, as given.
        path: String,
        /// The cause.
        error: FsError,
    },
}

impl KindError for FilesError {
    fn class(&self) -> ErrorCause {
        match self {
            FilesError::Read { .. } => ErrorCause::Device,
            FilesError::NotFiles { error, .. } => match error {
                FsOpenError::Superblock(_) => ErrorCause::NotFound,
                FsOpenError::Space(forebay_vsl::SpaceError::Device(_)) => ErrorCause::Device,
                _ => ErrorCause::Refused,
            },
        }
    }
}
