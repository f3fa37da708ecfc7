//! The bytes on a log device. `docs/format/log.md` is the same in prose and tables.
//!
//! All integers are little-endian. Every structure carries a magic, the version, the volume's id and
//! a CRC32C over its whole length with the CRC field taken as zero. Decoding never panics and
//! allocates no more than the bytes it was given justify.
//!
//! `format/envelope.rs` has what the three structures share; each then has a file of its own.

mod entry;
mod envelope;
mod record;
mod summary;
mod superblock;

pub(crate) use entry::{DATA_ENTRY_BYTES, RANGE_ENTRY_BYTES};
pub use entry::{Entry, RangeKind};
pub use envelope::{FormatError, HEADER_BYTES, VERSION, VERSION_GAPS, VolumeId};
pub(crate) use record::RECORD_ENTRY_BYTES_MAX;
pub use record::Record;
pub(crate) use summary::{SUMMARY_RECORD_BYTES, summary_len};
pub use summary::{Summary, SummaryRecord};
pub use superblock::{
    LAYER_BYTES_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENTS_AT, SEGMENTS_MIN,
    SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, Superblock,
};

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
