//! Work on scratch images: volumes over images on a disk, which is emulated if wanted, and users that work on them.
//! `forebay try`, an end-to-end demonstration of the program, and the parts of `forebay-bench` that need real
//! filesystems use it.
//!
//! `forebay try` (`trial.rs`) runs as root with a filesystem on a loop device (`filesystem.rs`); otherwise, with the
//! steps at block level over NBD (`blocks.rs`). Both measure equal work on a disk alone and on the write cache in its
//! two shapes, or on log-structured volumes (`setup.rs`). Then they kill the daemon in the middle of writes, recover,
//! and check that all flushed data is present, both in the volume and, after a detach, on the data image alone. The
//! disks are emulated by default.
//!
//! Reading order: `stop.rs`, `place.rs`, `variant.rs`, `system.rs`, `drive.rs`, `context.rs`, `setup.rs`, `phases.rs`,
//! `trial.rs`.

mod args;
mod blocks;
pub mod context;
pub mod drive;
mod files;
mod filesystem;
mod phases;
pub mod place;
pub mod raw_server;
pub mod report;
pub mod setup;
pub mod stop;
pub mod system;
pub mod tree;
mod trial;
pub mod users;
pub mod variant;
pub mod writers;

pub use args::{TryArgs, TryDisk, TryKind};
pub use trial::run;
