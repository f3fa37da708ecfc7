//! A log on a device: records appended to a ring of segments.
//!
//! A layer gathers what is written to it in a *segment buffer* in memory; the log lays it out as
//! *records* (a header block that says what changes, then the data), writes them in large transfers,
//! and finds them again after a crash. What a record means is the layer's business; the log knows
//! order, durability and damage.
//!
//! What the layer may rely on:
//! - **Order.** Recovery gives back the records from the tail on, in the order they were appended,
//!   without a gap, and stops before the first that is not whole (I1). A write appended as a group
//!   comes back whole or not at all.
//! - **Durability.** When [`Log::flush`] returns, all that was appended before it was called comes
//!   back after any crash (I5). When [`Log::hand_over`] returns, it comes back if nothing is lost but the
//!   process.
//! - **Reuse.** A segment is overwritten only when the tail that excludes it is durable in both
//!   superblocks, so either one is enough (I2, I3).
//! - **Recovery is repeatable.** Until it has succeeded it changes nothing that it would itself take
//!   up; leftovers beyond the cut are never taken up later (I4).
//! - **Failure latches.** After a failed write or flush nothing is acknowledged any more (I7).
//!
//! Reading order: `docs/format/log.md` with `format.rs` (bytes), `ring.rs` (where things lie),
//! `state.rs` (what is known), `write.rs` (what waits), `gaps.rs` (where records go on a disk that turns), `superblocks.rs` (where to begin),
//! `recover.rs` and `scan.rs` (after a crash), `read.rs`.

mod error;
mod format;
mod gaps;
mod read;
mod recover;
mod ring;
mod scan;
mod state;
mod superblocks;
mod write;

pub use error::OpenError;
pub use forebay_segments::{LogError, LogStats, PORTION_BYTES, PairError};
pub use format::{
    Entry, FormatError, HEADER_BYTES, LAYER_BYTES_MAX, RangeKind, Record, SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN, SEGMENTS_AT, SEGMENTS_MIN, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, Summary,
    SummaryRecord, Superblock, VERSION, VERSION_GAPS, VolumeId,
};
pub use gaps::Gaps;
pub use read::Pin;
pub use recover::{Recovery, fits_device, format_device, open};
pub use ring::{Addr, Placed, RingError, RingGeometry, segments_max};
pub use scan::{Damage, RecoveredRecord, Scan, scan};
pub use state::{SEGMENTS_RESERVED, UNSTABLE_SEGMENTS_MAX};
pub use superblocks::{SuperblockCopies, read_superblocks, rewrite_abandoned};
pub use write::{Appender, Log, LogOptions, Workers};
