//! What can be wrong with a log: when it is taken up, and while it is in use.

use forebay_device::DeviceError;
use forebay_segments::PairError;
use forebay_units::RecordSeq;

use crate::scan::Damage;

/// Why a log cannot be taken up.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The device cannot be read or written.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No copy of the superblock counts.
    #[error(transparent)]
    Superblocks(PairError),
    /// The device is shorter than the log on it.
    #[error(
        "the log device has {have} bytes; the log on it was made for {need}: it has been cut short"
    )]
    Truncated {
        /// The device's length.
        have: u64,
        /// What the superblock says.
        need: u64,
    },
    /// The device's blocks are larger than those the log on it was made for.
    #[error(
        "the log device has blocks of {have} bytes; the log on it was made for blocks of {want}, \
         which this device cannot write"
    )]
    Block {
        /// The device's.
        have: u32,
        /// What the superblock says.
        want: u32,
    },
    /// Something that was durable is gone.
    #[error("{0}")]
    Damaged(Damage),
    /// A record is sound, and the layer above cannot apply it.
    #[error("{record} cannot be applied: {why}")]
    Unfit {
        /// The record.
        record: RecordSeq,
        /// What is wrong with it.
        why: String,
    },
}

impl From<PairError> for OpenError {
    fn from(error: PairError) -> OpenError {
        match error {
            PairError::Truncated { have, need } => OpenError::Truncated { have, need },
            other => OpenError::Superblocks(other),
        }
    }
}
