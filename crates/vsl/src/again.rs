//! Decodes structures of the device and encodes them again, for fuzzing of the decoders.
//!
//! Each function returns the encoding of the decoded structure, or `None` if the input is not valid. Decoding that
//! encoding again must give an equal structure.

use forebay_segment_log::RecordEntry;

use crate::format::{
    Checkpoint, CheckpointIndex, SpaceRecord, SpaceRecordLayout, TableChunk, decode_queue,
    encode_queue,
};

type SpaceSummary = forebay_segment_log::SegmentSummary<SpaceRecordLayout>;

/// Decodes the header of a record. Also returns the sectors of payload that its entries describe.
pub fn record(bytes: &[u8]) -> Option<(Vec<u8>, u64)> {
    let record = SpaceRecord::decode(bytes).ok()?;
    let sectors = record.entries.iter().map(RecordEntry::payload_sectors);
    Some((record.encode().to_vec(), sectors.sum()))
}

/// Decodes the summary of a segment, which is a whole number of blocks.
pub fn summary(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(SpaceSummary::decode(bytes).ok()?.encode())
}

/// Decodes the index of a checkpoint's parts. The superblock points at this index.
pub fn index(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(CheckpointIndex::decode(bytes)?.encode())
}

/// Decodes the body of a checkpoint.
pub fn checkpoint(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(Checkpoint::decode(bytes)?.encode())
}

/// Decodes a chunk of the table of segments that has `segments` entries.
pub fn table(bytes: &[u8], segments: usize) -> Option<Vec<u8>> {
    Some(TableChunk::decode(bytes, segments)?.encode())
}

/// Decodes a record that continues the allocation queue.
pub fn queue(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(encode_queue(&decode_queue(bytes)?))
}
