//! FUSE: filesystems in userspace, from the mount point to the answered request.
//!
//! - [`codec`] has the messages as bytes. It makes no system call and uses nothing outside the standard library, so it
//!   also works without the server.
//! - `mounting` mounts and unmounts a filesystem: [`FuseMount`].
//! - `server` receives the kernel's requests, by `/dev/fuse` or io_uring, for a [`FuseHandler`]: [`ServedMount`].
//!
//! Two crates have handlers: `loopdev` has a device as a file, and `mount` a whole filesystem.
//!
//! Reading order: [`codec`], `mounting/mount.rs`, then `server/mod.rs` with its own reading order.

pub mod codec;
mod mounting;
mod server;

pub use mounting::{FUSE_TYPE, FuseMount, is_dead};
pub use server::{
    ActiveRequest, FuseHandler, IO_BYTES_MAX, IncomingRequest, InitOptions, ServedMount,
    SessionEnd, SessionEndEvent, StaleCache, UnmountError,
};
