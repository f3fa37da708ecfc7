//! The superblock of a filesystem.

use forebay_segment_log::format::envelope::{
    FormatError, HEADER_BYTES, VERSION, VolumeId, begin, finish, open,
};

use crate::geometry::FsGeometry;

const MAGIC: &[u8; 8] = b"FOREDFS\x01";
const WHAT: &str = "superblock of a filesystem";

/// Version of the format of filesystems.
pub const FS_VERSION: u32 = VERSION;

/// The superblock of a filesystem, at sector 0 of the space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FsSuperblock {
    /// The volume's identity.
    pub volume: VolumeId,
    /// The number of times that the filesystem was opened. Generations of new files begin with it.
    pub mounts: u64,
    /// The key for the hash of names in directories.
    pub hash_key: [u8; 16],
    /// The division of the space.
    pub geometry: FsGeometry,
}

impl FsSuperblock {
    /// Encodes the superblock.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = begin(MAGIC, FS_VERSION, self.volume);
        out.extend_from_slice(&self.mounts.to_le_bytes());
        out.extend_from_slice(&self.hash_key);
        out.extend_from_slice(&self.geometry.slot_sectors.to_le_bytes());
        out.push(self.geometry.chunk_bits);
        finish(out)
    }

    /// Decodes the superblock.
    ///
    /// # Errors
    ///
    /// If the superblock is missing or damaged, has another version, or has an impossible geometry.
    pub fn decode(bytes: &[u8]) -> Result<FsSuperblock, FormatError> {
        let mut from = open(bytes, MAGIC, WHAT)?;
        let decoded = (|| {
            let volume = from.volume()?;
            let mounts = from.counter()?;
            let hash_key = from.take(16)?.try_into().ok()?;
            let slot_sectors = from.uint(4)? as u32;
            let chunk_bits = from.uint(1)? as u8;
            let geometry = FsGeometry {
                chunk_bits,
                slot_sectors,
            };
            geometry.is_possible().then_some(FsSuperblock {
                volume,
                mounts,
                hash_key,
                geometry,
            })
        })();
        decoded.ok_or(FormatError::Content(WHAT))
    }
}
