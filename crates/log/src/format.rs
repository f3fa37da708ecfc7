//! The bytes on a log device. `docs/format/log.md` is the same in prose and tables.
//!
//! Records and summaries are those of `segments`; here is what they say of the volume (`format/entry.rs`),
//! and the superblock.

mod entry;
mod superblock;

use forebay_segments::Layout;

pub(crate) use entry::{DATA_ENTRY_BYTES, RANGE_ENTRY_BYTES};
pub use entry::{Entry, RangeKind};
pub use forebay_segments::{
    FormatError, HEADER_BYTES, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, VERSION, VolumeId,
};
pub use superblock::{
    LAYER_BYTES_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENTS_AT, SEGMENTS_MIN, Superblock,
    VERSION_GAPS,
};

/// The records of the cache's ring: numbered one after the other, within a segment and across.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ring {}

impl Layout for Ring {
    type Entry = Entry;
    const RECORD: &'static [u8; 8] = b"FOREREC\x01";
    const SUMMARY: &'static [u8; 8] = b"FORESUM\x01";
    const NUMBERED: bool = false;
}

/// The header of a record: what it does to the volume. The payload follows it at once.
pub type Record = forebay_segments::Record<Ring>;
/// What lies at the end of a full segment and lists all it holds.
pub type Summary = forebay_segments::Summary<Ring>;
/// A record as a summary tells of it.
pub type SummaryRecord = forebay_segments::SummaryRecord<Ring>;

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
