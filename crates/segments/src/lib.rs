//! Logs in segments: what the cache's ring and the virtual storage layer have in common.
//!
//! A layer gathers what is written to it in segments in memory; here it is laid out as *records* (a header
//! block that says what changes, then the data), written in large transfers, made durable for many at
//! once, and found again. What a record says is the layer's ([`Entry`]), and so is which segment comes
//! next and when one may be used again.
//!
//! Reading order: `format.rs` (bytes), `shape.rs`, `builder.rs` (a segment that is being filled), `ram.rs` and
//! `flight.rs` (what is on its way), `unstable.rs` (what is written again), `commit.rs` (what waits), `peek.rs` (what
//! is found again), `pair.rs` (the superblock's two copies).

mod builder;
pub mod commit;
mod flight;
pub mod format;
mod pair;
mod peek;
mod ram;
mod shape;
mod unstable;

pub use builder::{Builder, Closing, Sealing};
pub use commit::{
    Commit, CommitWorkers, Composer, DeviceFault, Gathering, LogError, LogStats, OnFailure,
    PORTION_BYTES, WaitError, Watcher,
};
pub use flight::Flight;
pub use format::{
    Entry, FormatError, HEADER_BYTES, Layout, RECORD_ENTRY_BYTES_MAX, Record, Summary,
    SummaryRecord, VERSION, VolumeId,
};
pub use pair::{
    Copies, PLACES, PairError, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, Superblock, read_copies,
    write_copies,
};
pub use peek::{
    Next, header_at, header_in, payload_is_sound, read_summary, summary_in, walk, walk_from,
};
pub use ram::{Job, RamSegment};
pub use shape::Shape;
