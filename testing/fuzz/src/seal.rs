//! Correction of checksums, as by an attacker with knowledge of the format.

use forebay_ring_log::HEADER_BYTES;

const CRC_AT: usize = 12;
const SUMMARY: &[u8; 8] = b"FORESUM\x01";
/// Place of the length of a summary in its last block.
const SUMMARY_BYTES_AT: usize = 72;

/// Corrects the checksum of a structure whose last block contains the checksum.
pub(crate) fn seal(bytes: &mut [u8]) {
    let Some(at) = bytes.len().checked_sub(HEADER_BYTES) else {
        return;
    };
    let (before, last) = bytes.split_at_mut(at);
    last[CRC_AT..CRC_AT + 4].fill(0);
    let crc = crc32c::crc32c_append(crc32c::crc32c(last), before);
    last[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Corrects the checksum of the structure whose last (or only) block begins at `at` of `image`.
pub(crate) fn seal_at(image: &mut [u8], at: usize) {
    let end = at + HEADER_BYTES;
    let mut start = at;
    if image[at..].starts_with(SUMMARY) {
        let field = &image[at + SUMMARY_BYTES_AT..][..4];
        let bytes = u32::from_le_bytes(field.try_into().expect("four bytes")) as usize;
        // A nonsensical length is kept, for the decoder to refuse.
        if bytes.is_multiple_of(HEADER_BYTES) && (HEADER_BYTES..=end.min(64 << 20)).contains(&bytes)
        {
            start = end - bytes;
        }
    }
    seal(&mut image[start..end]);
}

/// Corrects the checksum of a structure of a filesystem, which is behind the magic.
pub(crate) fn seal_sector(bytes: &mut [u8]) {
    let Some((before, rest)) = bytes.split_at_mut_checked(8) else {
        return;
    };
    before[4..].fill(0);
    let head = if before.starts_with(b"FBXA") {
        &before[..4]
    } else {
        &*before
    };
    let crc = crc32c::crc32c_append(crc32c::crc32c(head), rest);
    before[4..].copy_from_slice(&crc.to_le_bytes());
}

/// Returns `bytes` as a block: cut off or filled up with zeroes, so that the corpus can omit the zeroes.
pub(crate) fn block(bytes: &[u8]) -> Vec<u8> {
    let mut block = bytes[..bytes.len().min(HEADER_BYTES)].to_vec();
    block.resize(HEADER_BYTES, 0);
    block
}
