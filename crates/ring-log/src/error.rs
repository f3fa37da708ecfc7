//! Errors of opening a log. Errors of a log in use are `LogError` in the crate `segment-log`.

use forebay_device::DeviceError;
use forebay_segment_log::PairError;
use forebay_units::RecordSeq;

use crate::scan::ChainDamage;

/// Reason why a log cannot be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogOpenError {
    /// The device cannot be read or written.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No copy of the superblock is valid.
    #[error(transparent)]
    Superblocks(PairError),
    /// The device is shorter than the log on it.
    #[error(
        "the log device has {have} bytes; the log on it was made for {need}: it has been cut short"
    )]
    Truncated {
        /// The device's length.
        have: u64,
        /// Length of the log according to the superblock.
        need: u64,
    },
    /// The device's blocks are larger than the blocks for which the log was made.
    #[error(
        "the log device has blocks of {have} bytes; the log on it was made for blocks of {want}, \
         which this device cannot write"
    )]
    Block {
        /// The device's block size.
        have: u32,
        /// Block size according to the superblock.
        want: u32,
    },
    /// Durable data is missing.
    #[error("{0}")]
    Damaged(ChainDamage),
    /// A record is intact, but the layer above cannot apply it.
    #[error("{record} cannot be applied: {why}")]
    Unfit {
        /// The record.
        record: RecordSeq,
        /// Reason given by the layer above.
        why: String,
    },
}

impl From<PairError> for LogOpenError {
    fn from(error: PairError) -> LogOpenError {
        match error {
            PairError::Truncated { have, need } => LogOpenError::Truncated { have, need },
            other => LogOpenError::Superblocks(other),
        }
    }
}
