//! The virtual storage layer: a sparse 64-bit space of sectors in a log, with atomic updates of many
//! ranges at once, where data is placed by a policy.
//!
//! Data goes to wherever the log is, a map says where it went, and a cleaner makes room. Everything
//! that is called a place here is on the medium, and everything that is called a sector is in the space.
//! Sectors are numbers of 64 bits; the very last has no address, so that every range has an end.
//!
//! `map.rs` is the place to start, then `format.rs` beside docs/format/vsl.md.

mod extent;
mod format;
mod map;
//!
//! What decides is apart from what does, and waits for nothing:
//!
//! - `placement.rs`: which stream data goes to, or whether it is overwritten in place.
//! - `victim.rs`: which segments are cleaned.
//! - `wear.rs`: which free segment is taken, and what is moved for wear.
//! - `pace.rs`: when to clean, and how fast users may write meanwhile.
//! - `cost.rs`: the model of costs that these rest on.

pub mod cost;
pub mod pace;
mod place;
pub mod placement;
pub mod victim;
pub mod wear;

pub use extent::{Check, EXTENT_SECTORS_MAX, Extent, INLINE_SECTORS_MAX, Replaced};
pub use format::{
    Child, Content, DETACHED_BYTES, DetachedRef, FormatError, INNER_ENTRIES_MAX, LEAF_ENTRIES_MAX,
    LEVELS_MAX, NODE_BYTES, Node, ROOT_BYTES, RootRef, VERSION, VolumeId,
};
pub use map::{Completed, Flaw, LoadError, Map, Need, Pins, Shape, Snapshot};
pub use place::{Place, WriteClock};
