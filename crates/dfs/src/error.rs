//! Why something could not be done.

use forebay_device::Durability;
use forebay_segments::FormatError;
use forebay_vsl::SpaceError;

/// How what is done is acknowledged: durable with the next flush.
pub(crate) const LATER: Durability = Durability::Flush;

/// Why something could not be done to a filesystem. Nothing of it was done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FsError {
    /// There is no such name, or no such file any more.
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken.
    #[error("the name is taken")]
    Exists,
    /// It is no directory.
    #[error("not a directory")]
    NotDirectory,
    /// It is a directory.
    #[error("is a directory")]
    IsDirectory,
    /// A directory that is to go has names in it.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The name has more than 255 bytes.
    #[error("the name is longer than 255 bytes")]
    NameTooLong,
    /// It was asked for something that cannot be.
    #[error("{0}")]
    Invalid(&'static str),
    /// The file, or the directory, is immutable or append only.
    #[error("the file is immutable or append only")]
    Protected,
    /// There is nothing from there on.
    #[error("there is no more data")]
    BeyondEnd,
    /// There is no extended attribute of this name.
    #[error("no such attribute")]
    NoAttribute,
    /// The extended attributes of a file would take more than there is for them.
    #[error("a file's extended attributes can take no more than {0} bytes in all")]
    Attributes(usize),
    /// The file would be larger than one can be.
    #[error("a file can be no larger than {0} bytes")]
    TooLarge(u64),
    /// It is more than can be done at once.
    #[error(
        "{bytes} bytes in {pieces} pieces are more than can be changed at once: 67108864 bytes in 8192 pieces"
    )]
    TooMuch {
        /// How many bytes.
        bytes: u64,
        /// In how many pieces.
        pieces: usize,
    },
    /// The file has as many names as one can have.
    #[error("the file has as many names as one can have")]
    Links,
    /// There are as many files as there can be.
    #[error("there are as many files as there can be: {0}")]
    Files(u64),
    /// So many names have nearly the same hash that there is no room for another.
    #[error("the directory has no room for this name")]
    Crowded,
    /// A file has, or all files have, as many preallocated ranges as there can be.
    #[error("no more separate ranges can be preallocated: write zeroes instead")]
    PreallocatedRanges,
    /// Something is not what it should be.
    #[error("{what} of file {file} is damaged: {why}")]
    Damaged {
        /// What.
        what: &'static str,
        /// The file's i-number.
        file: u64,
        /// How.
        why: FormatError,
    },
    /// Names and i-nodes contradict each other.
    #[error("file {file} is damaged: {why}")]
    Contradiction {
        /// The file's i-number.
        file: u64,
        /// How.
        why: &'static str,
    },
    /// The space refuses.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// Why there is no filesystem to be taken up.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The superblock is not one.
    #[error(transparent)]
    Superblock(#[from] FormatError),
    /// The space is smaller than the filesystem says.
    #[error("the space has {found} sectors, and the filesystem needs {needed}")]
    Small {
        /// What it needs.
        needed: u64,
        /// What there is.
        found: u64,
    },
    /// There is something else in the space.
    #[error("the space is not empty")]
    NotEmpty,
    /// There can be no such filesystem.
    #[error(
        "there can be no filesystem with chunks of 2^{chunk_bits} sectors and slots of {slot_sectors}"
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
    /// The space refuses.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// What comes of an operation.
pub type Result<T> = std::result::Result<T, FsError>;
