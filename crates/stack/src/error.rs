//! Why devices cannot be composed to a volume.

use std::path::PathBuf;

use forebay_dcd::AttachError;
use forebay_os::OpenError;
use forebay_units::ByteLen;

/// Why a volume cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// A device cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Log and data are one.
    #[error(
        "the log {log} and the data {data} are the same device{}; give another log, or parts that \
         do not overlap (PATH@OFFSET+LENGTH)",
        if *in_part { " in part" } else { "" }
    )]
    SameDevice {
        /// The log, as given.
        log: String,
        /// The data, as given.
        data: String,
        /// Whether only parts of it were given.
        in_part: bool,
    },
    /// One disk cannot be two.
    #[error(
        "the log {log} and the data {data} are parts of one disk, which cannot be two models at once; \
         name the same model, with the same options, for both"
    )]
    TwoModels {
        /// The log, as given.
        log: String,
        /// The data, as given.
        data: String,
    },
    /// The data does not fit on the disk it is to be like.
    #[error(
        "{} has {} ({len} bytes), but the disk \"{model}\" holds {} ({capacity} bytes); give a larger \
         model, or a smaller image (an image may be smaller than the disk: it is its first part)",
        path.display(), ByteLen(*len), ByteLen(*capacity)
    )]
    TooLarge {
        /// The path of the data.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
        /// The disk's name.
        model: String,
        /// The disk's capacity in bytes.
        capacity: u64,
    },
    /// The part is not inside the device.
    #[error("{spec} reaches past the end of the device, which has {} ({len} bytes)", ByteLen(*len))]
    PastTheEnd {
        /// The part, as given.
        spec: String,
        /// The device's length in bytes.
        len: u64,
    },
    /// The part is not in whole blocks.
    #[error("{spec} does not begin and end on the device's blocks of {block_size} bytes; round it")]
    Unaligned {
        /// The part, as given.
        spec: String,
        /// The block size in bytes.
        block_size: u32,
    },
    /// The write cache refuses.
    #[error("cannot attach {log} (data {data}): {error}")]
    Attach {
        /// The log, as given.
        log: String,
        /// The data, as given.
        data: String,
        /// Why.
        error: AttachError,
    },
}
