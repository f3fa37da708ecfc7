//! The error of a log that accepts no more records.

use std::sync::Arc;

/// Reason why the log accepts no more records.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LogError {
    /// An earlier required write or flush has failed.
    #[error("the log device failed: {0}")]
    Failed(Arc<str>),
    /// The owner of the log took it out of use.
    #[error("the log was taken out of use")]
    Retired,
}

impl LogError {
    /// Returns the cause, in words.
    pub fn cause(&self) -> &str {
        match self {
            LogError::Failed(cause) => cause,
            LogError::Retired => "it was taken out of use",
        }
    }
}
