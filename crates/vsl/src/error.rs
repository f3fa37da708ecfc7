//! What can be wrong with a volume: when it is taken up, and while it is in use.

use std::sync::Arc;
use std::time::Duration;

use forebay_device::DeviceError;
use forebay_segments::{LogError, PairError, WaitError};
use forebay_units::{RecordSeq, Sector, SegmentSeq};

use crate::batch::BatchError;
use forebay_extents::LoadError;
use forebay_extents::Place;

/// Why a volume cannot be taken up.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The device cannot be read or written.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No copy of the superblock counts.
    #[error(transparent)]
    Superblocks(#[from] PairError),
    /// The device is shorter than the volume on it.
    #[error(
        "the device has {have} bytes; the volume on it was made for {need}: it has been cut short"
    )]
    Truncated {
        /// The device's length.
        have: u64,
        /// What the superblock says.
        need: u64,
    },
    /// The device's blocks are larger than those the volume on it was made for.
    #[error(
        "the device has blocks of {have} bytes; the volume on it was made for blocks of {want}, \
         which this device cannot write"
    )]
    Block {
        /// The device's.
        have: u32,
        /// What the superblock says.
        want: u32,
    },
    /// The newest checkpoint is damaged.
    #[error("the checkpoint at sector {0} is damaged: {1}")]
    Checkpoint(u64, &'static str),
    /// A node of the map is damaged.
    #[error("a node of the map, at {0:?}, is damaged: {1}")]
    Node(Place, LoadError),
    /// Something that was durable is gone.
    #[error(
        "record {missing} is missing or broken, though it was flushed (up to {stable} all were); what it \
         wrote cannot be told"
    )]
    Damaged {
        /// The first record missing.
        missing: RecordSeq,
        /// The newest record known to have been durable.
        stable: RecordSeq,
    },
    /// The volume failed while it was taken up.
    #[error("the device failed: {}", .0.0)]
    Failed(#[from] LogError),
    /// There is no room for the checkpoint that taking it up ends with.
    #[error("there is no room left to take the volume up: {0}")]
    Room(&'static str),
}

/// Why something could not be done to a space.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SpaceError {
    /// It was asked for something that cannot be.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// There is no room: nothing of the batch was done.
    #[error(
        "the volume is full: {need} bytes more would be needed, and {have} can be had (trim what is no \
         longer needed)"
    )]
    Full {
        /// Bytes the batch would add.
        need: u64,
        /// Bytes that can still be mapped.
        have: u64,
    },
    /// The batch needs more segments than the volume can have free at once. Nothing of it was done. Smaller batches can
    /// succeed.
    #[error(
        "a batch of {need} bytes is too large for this volume, which can take {most} at once now"
    )]
    Large {
        /// Bytes that the batch writes.
        need: u64,
        /// Bytes that one batch can write now, approximately.
        most: u64,
    },
    /// The device gave an error.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What was read is not what was written.
    #[error("{sectors} sectors from {sector} on are damaged: they do not match their checksum")]
    Damaged {
        /// Where it begins.
        sector: Sector,
        /// How many sectors.
        sectors: u64,
    },
    /// A node of the map is damaged, so where a range lies is not known.
    #[error("a node of the map, at {0:?}, is damaged: {1}")]
    Node(Place, LoadError),
    /// Headers of a segment are damaged: live data in it is missing in the list of what it holds, so it cannot be moved.
    #[error("headers of segment {0} are damaged, so what it holds cannot be moved")]
    Headers(SegmentSeq),
    /// The device has been failing for longer than requests wait. The volume goes on trying.
    #[error("the device has been failing for {} s, and is tried again: {cause}", lasted.as_secs())]
    Failing {
        /// For how long.
        lasted: Duration,
        /// Its last error.
        cause: Arc<str>,
    },
    /// The volume has failed: an earlier write or flush that something rested on did not succeed.
    #[error("the device failed: {}", .0.0)]
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
