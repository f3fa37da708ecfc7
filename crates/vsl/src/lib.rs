//! The virtual storage layer: a sparse 64-bit space of sectors in a log, with atomic updates of many
//! ranges at once, where data is placed by a policy.
//!
//! Data goes to wherever the log is, a map says where it went, and a cleaner makes room. Everything
//! that is called a place here is on the medium, and everything that is called a sector is in the space.
//!
//! What users may rely on:
//! - **Batches.** A [`Batch`] is done whole or, at a crash, not at all; a crash leaves a prefix of the batches in
//!   the order in which they were done, and one that does not end before the last completed flush.
//! - **Trims** are durable like writes.
//! - **Nothing wrong is read**: data and map are checked against checksums.
//! - **A full volume refuses** a batch before any of it is done; nothing else is refused for lack of room.
//!
//! Reading order: `docs/design/vsl.md`; `format.rs` with `docs/format/vsl.md` (bytes); `geometry.rs`, `segment.rs`,
//! `free.rs`, `weight.rs` and `table.rs` (segments and what is known of them); `streams.rs` (what is being filled) and
//! `queue.rs` (what comes next); `store.rs` (where segments are kept) and `headers.rs` (what they hold); `space.rs`, `write.rs`, `home.rs`
//! with `homes.rs`, `read.rs`, `places.rs` (where data lies); `spare.rs` (what is kept free), `room.rs` and `pacing.rs` (who may go on when room is short);
//! `checkpoint.rs`, `superblocks.rs`, `noting.rs`, `recover.rs`, `clean.rs`, `grow.rs`; `linear.rs` (as a device). The map is in
//! `forebay-extents`.
//!
//! Where data is placed, what is cleaned and at what pace `forebay-placement` decides.

pub mod again;
mod audit;
mod batch;
mod changed;
mod checkpoint;
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
mod read;
mod recover;
mod room;
mod segment;
mod space;
mod spare;
mod stats;
mod store;
mod streams;
mod superblocks;
mod table;
mod tune;
mod weight;
mod write;

pub use batch::{BATCH_BYTES_MAX, BATCH_PIECES_MAX, Batch, BatchError, Op};
pub use error::{OpenError, SpaceError};
pub use forebay_extents::{LoadError, Place};
pub use forebay_placement::WriteClock;
pub use forebay_placement::cost::Disk;
pub use forebay_placement::placement::{Fact, Kind, Tuning};
pub use forebay_placement::wear::Levelling;
pub use format::{FormatError, SEGMENTS_MAX, Superblock, VERSION, VolumeId};
pub use geometry::{GeometryError, Layout, Slot};
pub use grow::GrowError;
pub use inspect::{DumpItem, Pending, dump, pending};
pub use linear::Linear;
pub use options::Options;
pub use places::{PlacedRun, Where};
pub use recover::{Making, Recovery, create, fits_device, open};
pub use space::{Capacity, Space, Workers};
pub use spare::SPARE_PART;
pub use stats::Stats;
pub use tune::TuneError;
