//! Bytes read and written again, for who wants to know whether that gives the same: structures that nobody else has to do with.

use crate::format::{Orphan, Preallocation, attributes};

/// A mark, written as it was read; nothing if there is none.
pub fn mark(bytes: &[u8]) -> Option<Vec<u8>> {
    let mark = Orphan::decode(bytes).ok()??;
    Some(mark.encode().to_vec())
}

/// The extended attributes of a file, written as they were read; nothing if there are none.
pub fn extended_attributes(file: u64, bytes: &[u8]) -> Option<Vec<u8>> {
    let all = attributes::decode(file, bytes).ok()?;
    Some(attributes::encode(file, &all))
}

/// Returns the record of preallocated ranges in these bytes, encoded anew.
pub fn preallocation(bytes: &[u8]) -> Option<Vec<u8>> {
    let record = Preallocation::decode(bytes).ok()??;
    Some(record.encode())
}
