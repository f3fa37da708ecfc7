//! Errors of the filesystem.

use forebay_device::Durability;
use forebay_segment_log::FormatError;
use forebay_vsl::SpaceError;

/// The durability of changes: durable with the next flush.
pub(crate) const LATER: Durability = Durability::Flush;

/// An error of an operation. The operation has changed nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FsError {
    /// The name does not exist, or the file no longer exists.
    #[error("no such file or directory")]
    NotFound,
    /// The name already exists.
    #[error("the name is taken")]
    Exists,
    /// The file is not a directory.
    #[error("not a directory")]
    NotDirectory,
    /// The file is a directory.
    #[error("is a directory")]
    IsDirectory,
    /// A directory to be removed has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The name has more than 255 bytes.
    #[error("the name is longer than 255 bytes")]
    NameTooLong,
    /// The request is invalid.
    #[error("{0}")]
    Invalid(&'static str),
    /// The file, or the directory, is immutable or append only.
    #[error("the file is immutable or append only")]
    Protected,
    /// No data follows the offset.
    #[error("no data follows the offset")]
    BeyondEnd,
    /// The extended attribute does not exist.
    #[error("no such attribute")]
    NoAttribute,
    /// The extended attributes of a file exceed their space.
    #[error("the extended attributes of a file are limited to {0} bytes in total")]
    Attributes(usize),
    /// The file would exceed the largest possible size.
    #[error("a file is limited to {0} bytes")]
    TooLarge(u64),
    /// The change exceeds the limits of one batch.
    #[error(
        "{bytes} bytes in {pieces} pieces exceed the limit of one change: 67108864 bytes in 8192 pieces"
    )]
    TooMuch {
        /// Bytes of data.
        bytes: u64,
        /// The number of pieces.
        pieces: usize,
    },
    /// The file already has the most names possible.
    #[error("the file has the maximum number of names")]
    Links,
    /// The filesystem already has the most files possible.
    #[error("the filesystem has the maximum number of files: {0}")]
    Files(u64),
    /// Too many names have similar hashes, so no sector is free for this name.
    #[error("the directory has no free place for this name")]
    Crowded,
    /// The file, or the filesystem, already has the most preallocated ranges possible.
    #[error("no more separate ranges can be preallocated: write zeroes instead")]
    PreallocatedRanges,
    /// A structure is damaged.
    #[error("{what} of file {file} is damaged: {why}")]
    Damaged {
        /// The structure.
        what: &'static str,
        /// The file's i-number.
        file: u64,
        /// The damage.
        why: FormatError,
    },
    /// Names and i-nodes contradict each other.
    #[error("file {file} is damaged: {why}")]
    Contradiction {
        /// The file's i-number.
        file: u64,
        /// The contradiction.
        why: &'static str,
    },
    /// An error of the space.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// An error when a filesystem is opened or created.
#[derive(Debug, thiserror::Error)]
pub enum FsOpenError {
    /// The superblock is invalid.
    #[error(transparent)]
    Superblock(#[from] FormatError),
    /// The space is smaller than the filesystem needs.
    #[error("the space has {found} sectors, but the filesystem needs {needed}")]
    Small {
        /// Sectors that the filesystem needs.
        needed: u64,
        /// Sectors of the space.
        found: u64,
    },
    /// The space contains other data.
    #[error("the space is not empty")]
    NotEmpty,
    /// The geometry is impossible.
    #[error(
        "a filesystem cannot have chunks of 2^{chunk_bits} sectors and slots of {slot_sectors} sectors"
    )]
    Geometry {
        /// Bits of a sector's number within a chunk.
        chunk_bits: u8,
        /// Sectors of a slot.
        slot_sectors: u32,
    },
    /// The root directory is missing or damaged.
    #[error("the root directory: {0}")]
    Root(FsError),
    /// An error of the space.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// The result of an operation.
pub type Result<T> = std::result::Result<T, FsError>;
