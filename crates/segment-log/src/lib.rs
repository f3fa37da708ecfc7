//! Logs of segments: the common part of the cache's ring and the virtual storage layer.
//!
//! A layer collects its writes in segments in memory. This crate lays them out as *records* (a header block with the
//! changes, followed by the data), writes them in large transfers, makes many of them durable at once, and finds them
//! again. The layer defines the content of records ([`RecordEntry`]), the order of segments and their reuse.
//!
//! Reading order: `format.rs` (encoding), `shape.rs`, `builder.rs` (a segment that is being filled), `ram.rs` and
//! `flight.rs` (data on its way to the device), `unstable.rs` (data that may be written again), `commit.rs` (group
//! commit), `peek.rs` (finding records), `pair.rs` (the superblock's two copies).

mod builder;
pub mod commit;
mod flight;
pub mod format;
mod log_error;
mod pair;
mod peek;
mod ram;
mod scrub;
mod shape;
mod unstable;

pub use builder::{HeaderFields, SegmentBuilder, SummaryFields};
pub use commit::{
    CommitPipeline, CommitWorkers, DeviceFault, GatherLimits, LogStats, OnFailure, PORTION_BYTES,
    RecordComposer, WaitError, WriteWatcher,
};
pub use flight::InFlightSegments;
pub use format::{
    FormatError, HEADER_BYTES, LogLayout, RECORD_ENTRY_BYTES_MAX, RecordEntry, RecordHeader,
    SegmentSummary, SummaryRecord, VERSION, VolumeId,
};
pub use log_error::LogError;
pub use pair::{
    PLACES, PairError, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, SuperblockFormat, SuperblockPair,
    read_copies, write_copies,
};
pub use peek::{
    WalkTarget, header_at, header_in, payload_is_sound, read_summary, summary_in, walk, walk_from,
};
pub use ram::{RamSegment, WriteJob};
pub use scrub::{COPIES_BYTES, COPIES_END, scrub_copies};
pub use shape::SegmentShape;
