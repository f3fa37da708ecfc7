//! The mounted filesystem: `forebay-dfs` answers the kernel's FUSE requests.
//!
//! Only the kernel's own requests change names and attributes of files, so the kernel may cache them without a time
//! limit.
//!
//! Reading order: `handler.rs` (dispatch of requests), `data.rs` with `sync_mode.rs` and `cached.rs`, `names.rs`,
//! `attributes.rs` with `acl.rs`, `flags.rs`, `error.rs`; then `handles.rs`, `transactions.rs`, `waiters.rs`,
//! `writers.rs`, `ioctl.rs` (atomic updates), `trim.rs`; `places.rs` with `medium.rs` (places of bytes).

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

pub use forebay_dfs::{AccessTimes, RequestClass};
pub use handler::{MountSettings, MountedFiles, RequestObserver};
pub use medium::FilesystemBacking;
