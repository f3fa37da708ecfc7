//! The write cache as a layer. Who is above knows no more of it than its variant in `tree.rs`, `status.rs`
//! and `error.rs`.
//!
//! `attach.rs` takes it into use (`in_use.rs`), `offline.rs` looks at its log while it is not, `words.rs` says for people
//! what both find, `vitals.rs` what is worth watching.

mod attach;
mod in_use;
mod offline;
pub(crate) mod vitals;
pub(crate) mod words;

pub(crate) use attach::attach;
pub use attach::{Accept, Attached};
pub use forebay_dcd::{Testimony, VolumeId, Witness};
pub use offline::Held;
pub(crate) use offline::{
    New, cache_of, check, create, dump, erase, held, inspect, room_for_log, salvage, segments_max,
};
