//! What can be wrong with a log: when it is taken up, and while it is in use.

use std::sync::Arc;

use forebay_device::DeviceError;
use forebay_units::RecordSeq;

use crate::format::{FormatError, VolumeId};
use crate::scan::Damage;

/// Why a log cannot be taken up.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The device cannot be read or written.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Neither copy of the superblock can be used.
    #[error("there is no usable superblock: copy A: {a}; copy B: {b}")]
    NoSuperblock {
        /// What is wrong with A.
        a: FormatError,
        /// What is wrong with B.
        b: FormatError,
    },
    /// One copy of the superblock cannot be read, and it may be the newer.
    #[error(
        "copy {copy} of the superblock cannot be read (a device error), and it may be newer than the \
         other; try again when the device works, or go on with the other copy by --accept-loss"
    )]
    SuperblockUnreadable {
        /// Which: `A` or `B`.
        copy: char,
    },
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
    /// The two copies are of different volumes, both of them sound.
    #[error("the two superblocks belong to different volumes, {a} and {b}")]
    TwoVolumes {
        /// The volume of copy A.
        a: VolumeId,
        /// The volume of copy B.
        b: VolumeId,
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

/// The log has failed: an earlier required write or flush did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the log device failed: {0}")]
pub struct LogError(pub Arc<str>);
