//! Front ends: what makes a `Device` visible to others. Each is protocol ↔ `Device`, nothing else.
//!
//! [`nbd`] serves any device over the network block device protocol; [`volume_file`] as one file of a
//! filesystem, over the FUSE server in [`fuse`]; [`blockdev`] makes a kernel block device of what a front
//! end serves, or of a device itself where the kernel has ublk. What they all do with a request is in
//! `requests`, and all requests of a daemon, whichever way they come, take their buffers from one bounded
//! [`Memory`].

pub mod blockdev;
pub mod fuse;
pub mod nbd;
mod requests;
pub mod volume_file;

pub use requests::{Memory, kernel_errno};
