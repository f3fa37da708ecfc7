//! The encoding of a file's extended attributes.

use forebay_segment_log::FormatError;
use forebay_segment_log::format::envelope::ByteReader;

const MAGIC: &[u8; 4] = b"FBXA";
const WHAT: &str = "extended attributes";
const HEADER: usize = 16;

fn crc_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), &bytes[8..])
}

/// Names and values.
pub(crate) type AttributeList = Vec<(Vec<u8>, Vec<u8>)>;

/// Encodes the extended attributes of a file.
pub(crate) fn encode(file: u64, attributes: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::from(*MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&file.to_le_bytes());
    for (name, value) in attributes {
        out.push(name.len() as u8);
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
    let crc = crc_of(&out);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Decodes the extended attributes of a file.
///
/// # Errors
///
/// If the bytes are damaged or belong to another file.
pub(crate) fn decode(file: u64, bytes: &[u8]) -> Result<AttributeList, FormatError> {
    if bytes.len() < HEADER || bytes[..4] != MAGIC[..] {
        return Err(FormatError::Magic(WHAT));
    }
    if bytes[4..8] != crc_of(bytes).to_le_bytes() {
        return Err(FormatError::Checksum(WHAT));
    }
    let mut from = ByteReader(&bytes[8..]);
    let decoded = (|| {
        if from.uint(8)? != file {
            return None;
        }
        let mut all = Vec::new();
        while !from.0.is_empty() {
            let name = from.uint(1)? as usize;
            let value = from.uint(4)? as usize;
            let name = from.take(name)?.to_vec();
            if name.is_empty() || name.contains(&0) {
                return None;
            }
            all.push((name, from.take(value)?.to_vec()));
        }
        Some(all)
    })();
    decoded.ok_or(FormatError::Content(WHAT))
}
