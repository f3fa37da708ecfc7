//! The on-disk format of a volume. `docs/format/vsl.md` contains the same format in prose and tables.
//!
//! Records and summaries are those of `segment-log`. The modules here define their entries (`format/entry.rs`), the
//! superblock, and the parts of a checkpoint beside the map's nodes.

mod checkpoint;
mod entry;
mod superblock;

use forebay_segment_log::LogLayout;

pub(crate) use checkpoint::{
    Checkpoint, CheckpointIndex, ChunkRef, OpenSegment, PART_BYTES, PartRef, TABLE_CHUNK_SEGMENTS,
    TableChunk, decode_queue, encode_queue,
};
pub(crate) use entry::{
    ENTRY_BYTES_MAX, MOVED_BYTES, MetaKind, NEXT_BYTES, SpaceEntry, StreamNumber, rounded_clock,
};
pub(crate) use forebay_segment_log::HEADER_BYTES;
pub use forebay_segment_log::{FormatError, VolumeId};
pub(crate) use superblock::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENTS_AT, SEGMENTS_MIN};
pub use superblock::{SEGMENTS_MAX, SpaceSuperblock, VERSION};

/// The records of a volume. Several streams share one order of records, so each record contains its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SpaceRecordLayout {}

impl LogLayout for SpaceRecordLayout {
    type Entry = SpaceEntry;
    const RECORD: &'static [u8; 8] = b"FOREVRC\x02";
    const SUMMARY: &'static [u8; 8] = b"FOREVSU\x02";
    const NUMBERED: bool = true;
}

/// The header of a record, with the record's changes of the space. The payload follows immediately.
pub(crate) type SpaceRecord = forebay_segment_log::RecordHeader<SpaceRecordLayout>;

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
