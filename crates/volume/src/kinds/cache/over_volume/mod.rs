//! A write cache over a log-structured volume: the cache's data is the volume below, not the device under that volume.
//!
//! The cache does not depend on this. The volume below is recovered first, then the cache on it. The cache moves its
//! tail past destaged data after a flush of the volume below has made the data durable. Drain and close run from the
//! top down. `admission.rs` prevents the cache from acknowledging data that does not fit into the volume below.
//!
//! `create.rs` creates both, `attach.rs` attaches both, as `attached.rs`, and `offline.rs` checks them while they are not
//! attached.

mod admission;
mod attach;
mod attached;
mod create;
mod offline;

pub(super) use attach::attach;
pub(super) use create::{is_under_cache, make_log, plan, recovered_at};
pub(super) use offline::check;
