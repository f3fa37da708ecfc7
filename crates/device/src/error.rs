//! Errors of devices.

use std::ops::Range;
use std::sync::Arc;

/// Kind of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceOp {
    /// [`crate::Device::read`].
    Read,
    /// [`crate::Device::write`].
    Write,
    /// [`crate::Device::flush`].
    Flush,
    /// [`crate::Device::discard`].
    Discard,
    /// [`crate::Device::write_zeroes`].
    WriteZeroes,
}

impl std::fmt::Display for DeviceOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DeviceOp::Read => "read",
            DeviceOp::Write => "write",
            DeviceOp::Flush => "flush",
            DeviceOp::Discard => "discard",
            DeviceOp::WriteZeroes => "write-zeroes",
        })
    }
}

/// Reason why a device failed a request. All positions are bytes from the device's start.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DeviceError {
    /// The request reaches past the end.
    #[error("{op} of bytes {range:?} reaches past the device's end at {len}")]
    OutOfRange {
        /// Kind of request.
        op: DeviceOp,
        /// Requested bytes.
        range: Range<u64>,
        /// Length of the device, in bytes.
        len: u64,
    },
    /// The request does not begin or end on a block boundary.
    #[error("{op} of bytes {range:?} is not in whole blocks of {block_size} bytes")]
    Unaligned {
        /// Kind of request.
        op: DeviceOp,
        /// Requested bytes.
        range: Range<u64>,
        /// Block size of the device, in bytes.
        block_size: u32,
    },
    /// The device or the system failed the request.
    #[error("{op} of bytes {range:?} failed: {source}")]
    Io {
        /// Kind of request.
        op: DeviceOp,
        /// Requested bytes; empty for a flush.
        range: Range<u64>,
        /// Error of the system.
        source: Arc<std::io::Error>,
    },
    /// Stored data does not match its checksum, so it is not returned.
    #[error("bytes {range:?} are damaged: {detail}")]
    Damaged {
        /// Bytes that cannot be returned.
        range: Range<u64>,
        /// Place where the damage was found.
        detail: &'static str,
    },
    /// The device accepts no writes.
    #[error("{op} refused: the device is read-only")]
    ReadOnly {
        /// Kind of request.
        op: DeviceOp,
    },
    /// A required write or flush failed earlier; no request is acknowledged after that.
    #[error("{op} refused: {cause}")]
    Failed {
        /// Kind of request.
        op: DeviceOp,
        /// The earlier failure.
        cause: Arc<str>,
    },
    /// The device is being closed.
    #[error("{op} refused: the device is closing")]
    Closed {
        /// Kind of request.
        op: DeviceOp,
    },
}

impl DeviceError {
    /// Creates a [`DeviceError::Io`] from an error of the system.
    pub fn io(op: DeviceOp, range: Range<u64>, source: std::io::Error) -> DeviceError {
        DeviceError::Io {
            op,
            range,
            source: Arc::new(source),
        }
    }

    /// Returns the system's error number, for front ends that must answer with a number (`EIO`, …).
    pub fn errno(&self) -> i32 {
        const EIO: i32 = 5;
        const EINVAL: i32 = 22;
        const ENOSPC: i32 = 28;
        const EROFS: i32 = 30;
        const ESHUTDOWN: i32 = 108;
        match self {
            DeviceError::OutOfRange {
                op: DeviceOp::Write | DeviceOp::WriteZeroes,
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

/// Result of a device's request.
pub type Result<T, E = DeviceError> = std::result::Result<T, E>;
