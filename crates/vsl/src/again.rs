//! Structures of the medium, read and written again: for those who try the decoders with anything.
//!
//! Each gives the bytes that it writes of what it read; none if it read nothing. What is read once is to be read again
//! from those, and to be the same.

use forebay_segments::Entry as _;

use crate::format::{Checkpoint, Index, Record, TableChunk, Volume, decode_queue, encode_queue};

type Summary = forebay_segments::Summary<Volume>;

/// A record's header, with so many sectors of payload that its entries tell of.
pub fn record(bytes: &[u8]) -> Option<(Vec<u8>, u64)> {
    let record = Record::decode(bytes).ok()?;
    let sectors = record.entries.iter().map(|entry| entry.payload_sectors());
    Some((record.encode().to_vec(), sectors.sum()))
}

/// A segment's summary, in whole blocks.
pub fn summary(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(Summary::decode(bytes).ok()?.encode())
}

/// The index of a checkpoint's parts, at which the superblock points.
pub fn index(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(Index::decode(bytes)?.encode())
}

/// The body of a checkpoint.
pub fn checkpoint(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(Checkpoint::decode(bytes)?.encode())
}

/// A part of the table of segments, of so many.
pub fn table(bytes: &[u8], segments: usize) -> Option<Vec<u8>> {
    Some(TableChunk::decode(bytes, segments)?.encode())
}

/// A record that continues the allocation queue.
pub fn queue(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(encode_queue(&decode_queue(bytes)?))
}
