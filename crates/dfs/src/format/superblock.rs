//! What a filesystem says of itself.

use forebay_segments::format::envelope::{
    FormatError, HEADER_BYTES, VERSION, VolumeId, begin, finish, open,
};

use crate::geometry::Geometry;

const MAGIC: &[u8; 8] = b"FOREDFS\x01";
const WHAT: &str = "superblock of a filesystem";

/// What a filesystem says of itself; at sector 0 of the space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Whose it is.
    pub volume: VolumeId,
    /// How often it was taken up: generations of files begin anew with it.
    pub mounts: u64,
    /// The key of the hash by which entries of directories are found.
    pub hash_key: [u8; 16],
    /// How the space is divided.
    pub geometry: Geometry,
}

impl Superblock {
    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = begin(MAGIC, VERSION, self.volume);
        out.extend_from_slice(&self.mounts.to_le_bytes());
        out.extend_from_slice(&self.hash_key);
        out.extend_from_slice(&self.geometry.slot_sectors.to_le_bytes());
        out.push(self.geometry.chunk_bits);
        finish(out)
    }

    /// The superblock in these bytes.
    ///
    /// # Errors
    /// If there is none, of this version, undamaged, and of a filesystem that can be.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, FormatError> {
        let mut from = open(bytes, MAGIC, WHAT)?;
        let decoded = (|| {
            let volume = from.volume()?;
            let mounts = from.counter()?;
            let hash_key = from.take(16)?.try_into().ok()?;
            let slot_sectors = from.uint(4)? as u32;
            let chunk_bits = from.uint(1)? as u8;
            let geometry = Geometry {
                chunk_bits,
                slot_sectors,
            };
            geometry.is_possible().then_some(Superblock {
                volume,
                mounts,
                hash_key,
                geometry,
            })
        })();
        decoded.ok_or(FormatError::Content(WHAT))
    }
}
