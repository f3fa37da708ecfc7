//! What can go wrong with a device.

use std::ops::Range;
use std::sync::Arc;

/// What was asked of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// [`crate::Device::read`]
    Read,
    /// [`crate::Device::write`]
    Write,
    /// [`crate::Device::flush`]
    Flush,
    /// [`crate::Device::discard`]
    Discard,
    /// [`crate::Device::write_zeroes`]
    WriteZeroes,
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
            Op::WriteZeroes => "write-zeroes",
        })
    }
}

/// Why a device did not do what it was asked. All positions are bytes from the device's start.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DeviceError {
    /// The request reaches past the end.
    #[error("{op} of bytes {range:?} reaches past the device's end at {len}")]
    OutOfRange {
        /// What was asked.
        op: Op,
        /// The bytes asked for.
        range: Range<u64>,
        /// The device's length, in bytes.
        len: u64,
    },
    /// The request does not begin or end on a block boundary.
    #[error("{op} of bytes {range:?} is not in whole blocks of {block_size} bytes")]
    Unaligned {
        /// What was asked.
        op: Op,
        /// The bytes asked for.
        range: Range<u64>,
        /// The device's block size, in bytes.
        block_size: u32,
    },
    /// The medium or the system refused.
    #[error("{op} of bytes {range:?} failed: {source}")]
    Io {
        /// What was asked.
        op: Op,
        /// The bytes asked for; empty for a flush.
        range: Range<u64>,
        /// What the system said.
        source: Arc<std::io::Error>,
    },
    /// What is stored there does not match its checksum; giving it out would be a lie.
    #[error("bytes {range:?} are damaged: {detail}")]
    Damaged {
        /// The bytes that cannot be given.
        range: Range<u64>,
        /// Where the damage was found.
        detail: &'static str,
    },
    /// The device accepts no writes.
    #[error("{op} refused: the device is read-only")]
    ReadOnly {
        /// What was asked.
        op: Op,
    },
    /// A required write or flush failed earlier; nothing is acknowledged after that.
    #[error("{op} refused: {cause}")]
    Failed {
        /// What was asked.
        op: Op,
        /// The failure that is latched.
        cause: Arc<str>,
    },
    /// The device is being taken down.
    #[error("{op} refused: the device is closing")]
    Closed {
        /// What was asked.
        op: Op,
    },
}

impl DeviceError {
    /// An [`DeviceError::Io`] from what the system said.
    pub fn io(op: Op, range: Range<u64>, source: std::io::Error) -> DeviceError {
        DeviceError::Io {
            op,
            range,
            source: Arc::new(source),
        }
    }

    /// The system's number for this error, for front ends that must answer with one (`EIO`, …).
    pub fn errno(&self) -> i32 {
        const EIO: i32 = 5;
        const EINVAL: i32 = 22;
        const ENOSPC: i32 = 28;
        const EROFS: i32 = 30;
        const ESHUTDOWN: i32 = 108;
        match self {
            DeviceError::OutOfRange {
                op: Op::Write | Op::WriteZeroes,
                ..
            } => ENOSPC,
            DeviceError::OutOfRange { .. } | DeviceError::Unaligned { .. } => EINVAL,
            DeviceError::Io { source, .. } => source.raw_os_error().unwrap_or(EIO),
            DeviceError::Damaged { .. } | DeviceError::Failed { .. } => EIO,
            DeviceError::ReadOnly { .. } => EROFS,
            DeviceError::Closed { .. } => ESHUTDOWN,
        }
    }
}

/// A device's answer.
pub type Result<T, E = DeviceError> = std::result::Result<T, E>;
