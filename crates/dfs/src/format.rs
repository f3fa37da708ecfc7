//! The encoding of the filesystem's structures. `docs/format/dfs.md` describes it in prose and tables.
//!
//! The layer below already protects these bytes with checksums. The checksum here also distinguishes a structure from a
//! structure of another kind or location, in case the filesystem ever reads the wrong sector.

pub(crate) mod attributes;
mod entry;
mod flags;
mod inode;
mod kind;
mod orphan;
pub(crate) mod preallocation;
mod superblock;

pub(crate) use entry::is_name;
pub use entry::{DirectoryEntry, NAME_MAX};
pub use flags::FileFlags;
pub use forebay_segment_log::{FormatError, VolumeId};
pub(crate) use inode::LINKS_MAX;
pub use inode::{FileTime, INLINE_MAX, Inode, SYMLINK_MAX};
pub use kind::FileKind;
pub(crate) use orphan::Orphan;
pub(crate) use preallocation::{PREALLOCATED_RANGES_MAX, Preallocation};
pub use superblock::{FS_VERSION, FsSuperblock};

use forebay_units::SECTOR_BYTES;

/// The bytes of one sector.
pub(crate) type SectorBytes = [u8; SECTOR_BYTES as usize];

const CRC_AT: usize = 4;

fn crc_of(block: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&block[..CRC_AT]);
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &[0; 4]), &block[CRC_AT + 4..])
}

/// Pads a structure to one sector with zeroes, and sets its checksum.
fn finish(mut bytes: Vec<u8>) -> SectorBytes {
    bytes.resize(SECTOR_BYTES as usize, 0);
    let crc = crc_of(&bytes);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    bytes.try_into().expect("it fits a sector")
}

/// Checks magic and checksum, and returns a reader of the content.
fn open<'a>(
    bytes: &'a [u8],
    magic: &[u8; 4],
    what: &'static str,
) -> Result<forebay_segment_log::format::envelope::ByteReader<'a>, FormatError> {
    if bytes.len() != SECTOR_BYTES as usize || bytes[..CRC_AT] != magic[..] {
        return Err(FormatError::Magic(what));
    }
    if bytes[CRC_AT..CRC_AT + 4] != crc_of(bytes).to_le_bytes() {
        return Err(FormatError::Checksum(what));
    }
    Ok(forebay_segment_log::format::envelope::ByteReader(
        &bytes[CRC_AT + 4..],
    ))
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
