//! Mounting what is served by FUSE.

mod fusermount;
mod mount;

pub use mount::{FUSE_TYPE, FuseMount};
