//! Errors of creating and attaching a volume.

use forebay_device::DeviceError;
use forebay_ring_log::{LogOpenError, RingError};
use forebay_units::ByteLen;

/// Reason why a volume cannot be created.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DcdCreateError {
    /// The log device is not suitable.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The data device is larger than the map supports.
    #[error("the data device has {0}; volumes of up to 4PiB are supported")]
    DataTooLarge(ByteLen),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Reason why a volume cannot be attached. Neither device was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DcdAttachError {
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] LogOpenError),
    /// The log belongs to something other than a write cache.
    #[error(
        "the log does not belong to a write cache: its superblock does not describe a data device"
    )]
    NotOurs,
    /// The data device is shorter than the recorded length.
    #[error(
        "the data device has {have} ({} bytes), but the data device of this log ({path}) had {want} ({} bytes): {}",
        .have.0, .want.0, shrunk(*.clean)
    )]
    Shrunk {
        /// Present length.
        have: ByteLen,
        /// Length recorded in the log.
        want: ByteLen,
        /// Path recorded in the log.
        path: String,
        /// True if the log is empty: the data device alone is the volume.
        clean: bool,
    },
    /// The data device is longer than recorded and has other names. Besides, the log holds data for it, or its ends
    /// differ from the fingerprint.
    #[error(
        "the data device has {have}, but the data device of this log ({path}) had {want} and was known as {}: \
         it is another device, or it grew and got another name. Attaching another device destroys the data on it; if \
         you are sure that this is the right device, use --accept-changed",
        .names.join(", ")
    )]
    LongerAndOther {
        /// Present length.
        have: ByteLen,
        /// Length recorded in the log.
        want: ByteLen,
        /// Path recorded in the log.
        path: String,
        /// Names recorded in the log.
        names: Vec<String>,
    },
    /// The data device cannot write blocks as small as the recorded block size.
    #[error(
        "the data device has blocks of {have} bytes, but the data device of this log had blocks of {want} bytes"
    )]
    OtherBlockSize {
        /// Present block size, in bytes.
        have: u32,
        /// Block size recorded in the log, in bytes.
        want: u32,
    },
    /// The data device was changed while its log holds newer data for it.
    #[error(
        "the data device differs at byte {at} from the content that this log recorded, and the log holds data \
         that is not on the data device: it is another device, or was mounted or written without its cache. \
         Applying the log may corrupt the device's data; if you are sure, use --accept-changed"
    )]
    Changed {
        /// First difference, in bytes from the start.
        at: u64,
    },
    /// The log failed and was abandoned.
    #[error(
        "this log failed in use and was abandoned{}; the data device alone is the volume. Make a new \
         log with `forebay replace-log`, or without a configuration file with `forebay create --force`",
        if *.lost == ByteLen(0) { String::new() } else { format!(", and {} of data were lost with it", .lost) }
    )]
    Abandoned {
        /// Data that was lost with the log.
        lost: ByteLen,
    },
    /// The log failed in use, and could not be marked as abandoned.
    #[error(
        "this log failed in use and was abandoned, but the log itself could not be marked, so it holds old data; \
         the data device alone is the volume. Make a new log with `forebay replace-log`, or without a configuration \
         file with `forebay create --force`"
    )]
    GivenUp,
    /// The failed-log record cannot be read.
    #[error(
        "the failed-log record cannot be read, so this log may have been abandoned after a failure: {0}"
    )]
    Witness(std::sync::Arc<std::io::Error>),
    /// A data device fails while it is examined.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Returns advice for a data device that is shorter than recorded.
fn shrunk(clean: bool) -> &'static str {
    if clean {
        "it is another device, or it shrank. Restore its length and attach again. The log is empty, so the data \
         device alone is the volume: to keep the shorter device, remove the volume with `forebay remove` and create it \
         again"
    } else {
        "it is another device, or it shrank, and the log holds data that is not on the data device. Restore the \
         device's length (nothing in the log is lost) and attach again; detach the volume before you make the device \
         shorter"
    }
}
