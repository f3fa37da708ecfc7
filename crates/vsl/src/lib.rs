//! The virtual storage layer: a sparse 64-bit space of sectors in a log, with atomic updates of many ranges at once. A
//! policy places the data.
//!
//! Data is appended to the log, a map records its places, and a cleaner frees space. A *place* is a position on the
//! device. A *sector* is a position in the space.
//!
//! Guarantees to clients:
//! - **Batches.** A [`Batch`] is applied whole or, after a crash, not at all. A crash leaves a prefix of the batches in
//!   the order in which they were applied. This prefix includes all batches up to the last completed flush.
//! - **Trims** are durable like writes.
//! - **No wrong data is returned**: data and map are verified by checksums.
//! - **A full volume refuses** a batch before any part of the batch is applied. No other operation is refused for lack
//!   of space.
//!
//! Reading order: `docs/design/vsl.md`; `format.rs` with `docs/format/vsl.md` (bytes); `geometry.rs`, `segment.rs`,
//! `free.rs`, `weight.rs` and `table.rs` (segments and their states); `streams.rs` (open segments) and `queue.rs` (next
//! segments); `store.rs` (storage of segments) and `headers.rs` (their contents); `space.rs`, `write.rs`, `home.rs`
//! with `homes.rs`, `read.rs`, `scrub.rs`, `places.rs` (places of data); `spare.rs` (reserved free space), `room.rs` and
//! `pacing.rs` (admission when free space is short); `checkpoint.rs` with `checkpointer.rs`, `superblocks.rs`,
//! `noting.rs`, `recover.rs`, `clean.rs`, `hold.rs`, `grow.rs`; `linear.rs` (as a device). The map is in
//! `forebay-extent-map`.
//!
//! `forebay-placement` chooses the places of data, the segments to clean, and the pace of cleaning.

pub mod again;
mod audit;
mod batch;
mod changed;
mod checkpoint;
mod checkpoint_queue;
mod checkpointer;
mod checks;
mod chunks;
mod claim;
mod clean;
mod counted;
mod discard;
mod error;
mod format;
mod free;
mod geometry;
mod grow;
mod growth;
mod hand_over;
mod handles;
mod headers;
mod hold;
mod home;
mod homes;
mod inspect;
mod linear;
mod meta;
mod noting;
mod options;
mod pacing;
mod placed;
mod places;
mod prepared;
mod queue;
mod queued;
mod read;
mod recover;
mod room;
mod scrub;
mod segment;
mod space;
mod spare;
mod stats;
mod still;
mod store;
mod streams;
mod superblocks;
mod table;
mod tune;
mod volume_change;
mod weight;
mod write;

pub use batch::{BATCH_BYTES_MAX, BATCH_PIECES_MAX, Batch, BatchError, BatchOp};
pub use error::{SpaceError, SpaceOpenError};
pub use forebay_extent_map::{LogPlace, NodeLoadError};
pub use forebay_placement::WriteClock;
pub use forebay_placement::cost::DiskParameters;
pub use forebay_placement::placement::{PlacementKind, PolicyFact, TunerStatus};
pub use forebay_placement::wear::WearLevelling;
pub use format::{FormatError, SEGMENTS_MAX, SpaceSuperblock, VERSION, VolumeId};
pub use geometry::{GeometryError, SegmentLayout, SegmentSlot};
pub use grow::GrowError;
pub use inspect::{SpaceDumpItem, UnappliedChanges, dump, pending};
pub use linear::SpaceDevice;
pub use options::SpaceSettings;
pub use places::{PlacedRange, SectorLocation};
pub use recover::{SpaceRecovery, SpaceSpec, create, fits_device, open};
pub use scrub::{DataScrub, SuperblockScrub};
pub use space::{Space, SpaceCapacity, SpaceWorkers};
pub use spare::SPARE_PART;
pub use stats::SpaceStats;
pub use superblocks::set_alias;
pub use tune::TuneError;
