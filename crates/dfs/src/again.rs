//! Decodes and re-encodes internal structures, so that tests and fuzzers can check for identical bytes.

use crate::format::{Orphan, Preallocation, attributes};

/// Decodes and re-encodes an orphan record. Returns `None` if the bytes hold no valid record.
pub fn mark(bytes: &[u8]) -> Option<Vec<u8>> {
    let mark = Orphan::decode(bytes).ok()??;
    Some(mark.encode().to_vec())
}

/// Decodes and re-encodes the extended attributes of a file. Returns `None` if they are invalid.
pub fn extended_attributes(file: u64, bytes: &[u8]) -> Option<Vec<u8>> {
    let all = attributes::decode(file, bytes).ok()?;
    Some(attributes::encode(file, &all))
}

/// Decodes and re-encodes a record of preallocated ranges. Returns `None` if the bytes hold no valid record.
pub fn preallocation(bytes: &[u8]) -> Option<Vec<u8>> {
    let record = Preallocation::decode(bytes).ok()??;
    Some(record.encode())
}
