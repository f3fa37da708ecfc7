//! Mounting of FUSE filesystems.

mod fusermount;
mod mount;

pub use mount::{FUSE_TYPE, FuseMount};
