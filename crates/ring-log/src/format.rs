//! On-disk structures of a log device. `docs/format/log.md` describes them in prose and tables.
//!
//! The crate `segment-log` defines records and summaries. This module defines their entries (`format/entry.rs`) and the
//! superblock.

mod entry;
mod superblock;

use forebay_segment_log::LogLayout;

pub(crate) use entry::{DATA_ENTRY_BYTES, RANGE_ENTRY_BYTES};
pub use entry::{RangeKind, RingEntry};
pub use forebay_segment_log::{
    FormatError, HEADER_BYTES, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, VERSION, VolumeId,
};
pub use superblock::{
    LAYER_BYTES_MAX, RingSuperblock, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENTS_AT,
    SEGMENTS_MIN, VERSION_GAPS,
};

/// Layout of the cache's ring. Records have consecutive numbers, within a segment and across segments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RingLayout {}

impl LogLayout for RingLayout {
    type Entry = RingEntry;
    const RECORD: &'static [u8; 8] = b"FOREREC\x01";
    const SUMMARY: &'static [u8; 8] = b"FORESUM\x01";
    const NUMBERED: bool = false;
}

/// Header of a record: its changes to the volume. The payload follows the header directly.
pub type RingRecord = forebay_segment_log::RecordHeader<RingLayout>;
/// Summary at the end of a full segment; lists all records of the segment.
pub type RingSummary = forebay_segment_log::SegmentSummary<RingLayout>;
/// A record as listed in a summary.
pub type RingSummaryRecord = forebay_segment_log::SummaryRecord<RingLayout>;

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
