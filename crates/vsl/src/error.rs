//! Errors of a volume, when it is attached and while it is in use.

use std::sync::Arc;
use std::time::Duration;

use forebay_device::DeviceError;
use forebay_segment_log::{LogError, PairError, WaitError};
use forebay_units::{RecordSeq, Sector, SegmentSeq};

use crate::batch::BatchError;
use forebay_extent_map::LogPlace;
use forebay_extent_map::NodeLoadError;

/// The reason that a volume cannot be attached.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SpaceOpenError {
    /// The device cannot be read or written.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No copy of the superblock is valid.
    #[error(transparent)]
    Superblocks(#[from] PairError),
    /// The device is shorter than the volume on it.
    #[error(
        "the device has {have} bytes; the volume on it was made for {need}: it has been cut short"
    )]
    Truncated {
        /// Length of the device.
        have: u64,
        /// Length recorded in the superblock.
        need: u64,
    },
    /// The device has larger blocks than the volume was made for.
    #[error(
        "the device has blocks of {have} bytes; the volume on it was made for blocks of {want}, \
         which this device cannot write"
    )]
    Block {
        /// Block size of the device.
        have: u32,
        /// Block size recorded in the superblock.
        want: u32,
    },
    /// The newest checkpoint is damaged.
    #[error("the checkpoint at sector {0} is damaged: {1}")]
    Checkpoint(u64, &'static str),
    /// A node of the map is damaged.
    #[error("a node of the map, at {0:?}, is damaged: {1}")]
    Node(LogPlace, NodeLoadError),
    /// Data that was durable is missing.
    #[error(
        "record {missing} is missing or damaged, although it was flushed (all records up to {stable} were); the \
         affected data is unknown"
    )]
    Damaged {
        /// The first missing record.
        missing: RecordSeq,
        /// The newest record known to have been durable.
        stable: RecordSeq,
    },
    /// The volume failed while it was being attached.
    #[error("the device failed: {}", .0.cause())]
    Failed(#[from] LogError),
    /// Free space is missing for the checkpoint at the end of the attach.
    #[error("the volume cannot be attached: {0}")]
    Room(&'static str),
}

/// The reason that an operation on a space failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SpaceError {
    /// The batch is invalid.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Free space is missing. No part of the batch was applied.
    #[error(
        "the volume is full: the batch needs {need} more bytes, and {have} bytes are available (trim data that is no \
         longer needed)"
    )]
    Full {
        /// Bytes that the batch would add.
        need: u64,
        /// Bytes that can still be mapped.
        have: u64,
    },
    /// The batch needs more segments than the volume can have free at once. No part of the batch was applied. Smaller
    /// batches can succeed.
    #[error(
        "a batch of {need} bytes is too large for this volume, which can accept {most} bytes at once now"
    )]
    Large {
        /// Bytes that the batch writes.
        need: u64,
        /// Bytes that one batch can write now, approximately.
        most: u64,
    },
    /// The device failed a request.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The data read is not the data written.
    #[error("{sectors} sectors from {sector} on are damaged: they do not match their checksum")]
    Damaged {
        /// First sector of the damaged range.
        sector: Sector,
        /// Number of sectors.
        sectors: u64,
    },
    /// A node of the map is damaged, so the place of a range is unknown.
    #[error("a node of the map, at {0:?}, is damaged: {1}")]
    Node(LogPlace, NodeLoadError),
    /// Headers of a segment are damaged. Entries of live data are missing there, so the segment cannot be emptied.
    #[error("headers of segment {0} are damaged, so its data cannot be moved")]
    Headers(SegmentSeq),
    /// The device has been failing for longer than requests wait. The volume keeps trying.
    #[error("the device has been failing for {} s, and is tried again: {cause}", lasted.as_secs())]
    Failing {
        /// Duration of the failure.
        lasted: Duration,
        /// The last error of the device.
        cause: Arc<str>,
    },
    /// The volume has failed: an earlier write or flush that later state depends on did not succeed.
    #[error("the device failed: {}", .0.cause())]
    Failed(#[from] LogError),
}

impl SpaceError {
    /// Returns true if the volume lacks space for the batch, now or at all.
    pub fn lacks_space(&self) -> bool {
        matches!(self, SpaceError::Full { .. } | SpaceError::Large { .. })
    }
}

impl From<WaitError> for SpaceError {
    fn from(error: WaitError) -> SpaceError {
        match error {
            WaitError::Failing { lasted, cause } => SpaceError::Failing { lasted, cause },
            other => SpaceError::Failed(other.into()),
        }
    }
}
