//! Why a volume cannot be made or attached.

use forebay_device::DeviceError;
use forebay_log::{OpenError, RingError};
use forebay_units::ByteLen;

/// Why a volume cannot be made.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CreateError {
    /// The log device does not do.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The data device is larger than can be mapped.
    #[error("the data device has {0}; volumes of up to 4PiB are supported")]
    DataTooLarge(ByteLen),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Why a volume cannot be attached. Nothing has been changed on either device.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AttachError {
    /// The log cannot be taken up.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// It is the log of something else.
    #[error("the log is not a write cache's: its superblock holds no description of a data device")]
    NotOurs,
    /// The data device is shorter than it was.
    #[error(
        "the data device has {have} ({} bytes), the one this log belongs to ({path}) had {want} ({} bytes): {}",
        .have.0, .want.0, shrunk(*.clean)
    )]
    Shrunk {
        /// Its length.
        have: ByteLen,
        /// The length recorded in the log.
        want: ByteLen,
        /// The path at which it was found.
        path: String,
        /// True if the log is empty: the data device alone is the volume.
        clean: bool,
    },
    /// The data device is longer than it was and has other names, and the log holds data for it, or its ends are others.
    #[error(
        "the data device has {have}, the one this log belongs to ({path}) had {want} and was known as {}: \
         it is another device, or it grew and got another name. A volume on another device destroys data there; if you \
         are sure, use --accept-changed",
        .names.join(", ")
    )]
    LongerAndOther {
        /// Its length.
        have: ByteLen,
        /// The length recorded in the log.
        want: ByteLen,
        /// The path at which it was found.
        path: String,
        /// The names recorded in the log.
        names: Vec<String>,
    },
    /// The data device cannot write blocks as small as the one this log belongs to.
    #[error("the data device has blocks of {have} bytes, the one this log belongs to had {want}")]
    OtherBlockSize {
        /// Its block size.
        have: u32,
        /// The block size noted in the log.
        want: u32,
    },
    /// The data device was changed while its log holds newer data for it.
    #[error(
        "the data device differs at byte {at} from what this log last saw there, and the log holds \
         data that is not home yet: it is another device, or was mounted or written without its \
         cache. Applying the log may corrupt it; if you are sure, use --accept-changed"
    )]
    Changed {
        /// The first difference, in bytes from the start.
        at: u64,
    },
    /// The log failed and was given up.
    #[error(
        "this log failed in use and was given up{}; the data device alone is the volume. Make a new \
         log with `forebay create --force`",
        if *.lost == ByteLen(0) { String::new() } else { format!(", and {} of data were lost with it", .lost) }
    )]
    Abandoned {
        /// What was lost with it.
        lost: ByteLen,
    },
    /// The log failed in use, and could not be told that it no longer counts.
    #[error(
        "this log failed in use and was given up, which could not be written to it: it holds old data; \
         the data device alone is the volume. Make a new log with `forebay create --force`"
    )]
    GivenUp,
    /// Whether the log was given up cannot be told.
    #[error("it cannot be told whether this log was given up after a failure: {0}")]
    Witness(std::sync::Arc<std::io::Error>),
    /// A data device fails while being looked at.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// What to do about a data device that is shorter than it was.
fn shrunk(clean: bool) -> &'static str {
    match clean {
        true => {
            "it is another device, or it shrank. Give it back its length and attach again. The log is empty, so \
             the data device alone is the volume: if it is to stay shorter, remove the volume with `forebay remove` and \
             create it again"
        }
        false => {
            "it is another device, or it shrank, and the log holds data for it that is not home yet. Give the \
             device back its length (nothing in the log is lost) and attach again; detach before it is made shorter"
        }
    }
}
