//! The write cache as a layer. Callers know only its variants in `tree.rs`, `status.rs` and `error.rs`.
//!
//! `attach.rs` attaches the cache (`in_use.rs`). `offline.rs` inspects its log while it is not in use. `words.rs`
//! formats the findings of both for people, and `vitals.rs` selects the figures that are worth watching.

mod attach;
mod in_use;
mod offline;
pub(crate) mod vitals;
pub(crate) mod words;

pub(crate) use attach::attach;
pub use attach::{AcceptedFaults, AttachedLayer};
pub use forebay_dcd::{FailedLogFuture, FailedLogRegistry, VolumeId};
pub use offline::DetectedLog;
pub(crate) use offline::{
    CacheCreateSpec, cache_of, check, create, dump, erase, held, inspect, room_for_log, salvage,
    segments_max,
};
