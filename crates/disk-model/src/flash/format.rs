//! On-flash format of rewrites of the two rewritable blocks.

/// Bytes of an entry's head.
pub(super) const HEAD_BYTES: usize = 4096;
/// Version of this format.
pub(super) const VERSION: u32 = 1;
/// First bytes of every head.
pub(super) const MAGIC: [u8; 8] = *b"FOREFRO\x01";

const CRC_AT: usize = 12;

/// Head of an entry, before the copy of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CopyHeader {
    /// Number of the entry; each entry written has the next higher number.
    pub(super) sequence: u64,
    /// Number of the rewritable block, 0 or 1.
    pub(super) place: u32,
    /// CRC32C of the copy.
    pub(super) data_crc: u32,
}

impl CopyHeader {
    pub(super) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..28].copy_from_slice(&self.place.to_le_bytes());
        out[28..32].copy_from_slice(&self.data_crc.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        out[CRC_AT..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes a head. `None` if `bytes` are not an intact head of this version.
    pub(super) fn decode(bytes: &[u8; HEAD_BYTES]) -> Option<CopyHeader> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let mut copy = *bytes;
        copy[CRC_AT..16].fill(0);
        let sound = bytes[..8] == MAGIC && word(8) == VERSION;
        let sound = sound && word(CRC_AT) == crc32c::crc32c(&copy);
        sound.then(|| CopyHeader {
            sequence: u64::from(word(16)) | u64::from(word(20)) << 32,
            place: word(24),
            data_crc: word(28),
        })
    }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
