//! The bytes on a log device. `docs/format/log.md` is the same in prose and tables.
//!
//! All integers are little-endian. Every structure carries a magic, the version, the volume's id and
//! a CRC32C over its whole length with the CRC field taken as zero. Decoding never panics and
//! allocates no more than the bytes it was given justify.
//!
//! `format/envelope.rs` has what the three structures share; each then has a file of its own.

mod entry;
mod envelope;
mod record;
mod summary;
mod superblock;

pub(crate) use entry::{DATA_ENTRY_BYTES, RANGE_ENTRY_BYTES};
pub use entry::{Entry, RangeKind};
pub(crate) use record::RECORD_ENTRY_BYTES_MAX;
pub use record::Record;
pub(crate) use summary::{SUMMARY_RECORD_BYTES, summary_len};
pub use summary::{Summary, SummaryRecord};
pub use superblock::{LAYER_BYTES_MAX, Superblock};

/// The format's version. Another version is refused, not guessed at.
pub const VERSION: u32 = 1;
/// Length of a superblock, of a record's header and of a summary's last block, in bytes.
pub const HEADER_BYTES: usize = 4096;
/// Where superblock A lies, in bytes from the start of the log device.
pub const SUPERBLOCK_A_AT: u64 = 0;
/// Where superblock B lies: far from A, so that one scratch does not take both.
pub const SUPERBLOCK_B_AT: u64 = 512 << 10;
/// Where segment 0 begins.
pub const SEGMENTS_AT: u64 = 1 << 20;

/// Identifies a volume: 16 random bytes, chosen when it is created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VolumeId(pub [u8; 16]);

impl std::fmt::Display for VolumeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Why bytes are not the structure they were read as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// Too short, or another magic.
    #[error("no {0} here (wrong magic)")]
    Magic(&'static str),
    /// Written by another version of the format.
    #[error("a {what} of format version {found}; this program reads version {VERSION}")]
    Version {
        /// Which structure.
        what: &'static str,
        /// The version it carries.
        found: u32,
    },
    /// The bytes do not match their checksum.
    #[error("the {0} does not match its checksum")]
    Checksum(&'static str),
    /// The device gave an error where it should be: that says nothing of what stands there.
    #[error("the {0} cannot be read (a device error; it may be readable later)")]
    Unreadable(&'static str),
    /// The checksum is right and the content impossible.
    #[error("the {0} contradicts itself")]
    Content(&'static str),
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
