//! A log on a device: records appended to a ring of segments.
//!
//! A layer gathers written data in a *segment buffer* in memory. The log lays the data out as *records* (a header block
//! with the changes, then the data), writes them in large transfers, and finds them after a crash. The layer defines
//! the meaning of a record. The log is responsible for order, durability and damage.
//!
//! Guarantees to the layer:
//! - **Order.** Recovery returns the records from the tail on in the order of appending, without omissions. It stops
//!   before the first record that is not whole (I1). Recovery returns a write that was appended as a group whole or not
//!   at all.
//! - **Durability.** When [`RingLog::flush`] returns, everything appended before the call survives any crash (I5). When
//!   [`RingLog::hand_over`] returns, the data survives a crash of the process.
//! - **Reuse.** A segment is overwritten only after a tail that excludes it is durable in both superblocks. So either
//!   superblock alone is sufficient (I2, I3).
//! - **Recovery is repeatable.** Until recovery has succeeded, it changes nothing that a recovery would use. Leftovers
//!   beyond the end are never recovered later (I4).
//! - **Failure latches.** After a failed write or flush the log acknowledges nothing (I7).
//!
//! Reading order: `docs/format/log.md` with `format.rs` (bytes), `ring.rs` (addresses), `state.rs` (state), `write.rs`
//! (waiting), `gaps.rs` (rotational offsets), `superblocks.rs` (start of recovery), `recover.rs` and `scan.rs` (after a
//! crash), `read.rs`, `scrub.rs`.

mod error;
mod format;
mod gaps;
mod read;
mod recover;
mod ring;
mod scan;
mod scrub;
mod state;
mod superblocks;
mod write;

pub use error::LogOpenError;
pub use forebay_segment_log::{
    COPIES_BYTES, COPIES_END, LogError, LogStats, PORTION_BYTES, PairError,
};
pub use format::{
    FormatError, HEADER_BYTES, LAYER_BYTES_MAX, RangeKind, RingEntry, RingRecord, RingSummary,
    RingSummaryRecord, RingSuperblock, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENTS_AT,
    SEGMENTS_MIN, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, VERSION, VERSION_GAPS, VolumeId,
};
pub use gaps::OffsetPolicy;
pub use read::SegmentPin;
pub use recover::{LogRecovery, fits_device, format_device, open};
pub use ring::{AddressedEntry, LogAddr, RingError, RingGeometry, segments_max};
pub use scan::{ChainDamage, RecoveredRecord, ScanReport, scan};
pub use state::{SEGMENTS_RESERVED, UNSTABLE_SEGMENTS_MAX};
pub use superblocks::{RingSuperblockPair, read_superblocks, rewrite_abandoned};
pub use write::{GroupAppender, LogOptions, LogWorkers, RingLog};
