//! The filesystem, mounted: what the kernel asks of it by FUSE, answered by `forebay-dfs`.
//!
//! Names, and what is known of files, are changed by nobody but the kernel's own requests, so it may believe what it was
//! told for as long as it likes.
//!
//! Reading order: `handler.rs` (which request goes where), `data.rs` with `sync_mode.rs` and `cached.rs`, `names.rs`, `attributes.rs` with `acl.rs`, `flags.rs`, `error.rs`;
//! then `handles.rs`, `transactions.rs`, `waiters.rs`, `writers.rs`, `ioctl.rs` (atomic updates), `trim.rs`; `places.rs` with `medium.rs` (where bytes lie).

mod acl;
mod attributes;
mod cached;
mod data;
mod error;
mod flags;
mod handler;
mod handles;
mod ioctl;
mod medium;
mod names;
mod places;
mod sync_mode;
mod transactions;
mod trim;
mod waiters;
mod writers;

pub use forebay_dfs::AccessTimes;
pub use handler::{Did, Files, Observer, Settings};
pub use medium::Medium;
