//! Mounting of FUSE filesystems.

mod dead;
mod fusermount;
mod mount;

pub use dead::is_dead;
pub use mount::{FUSE_TYPE, FuseMount};
