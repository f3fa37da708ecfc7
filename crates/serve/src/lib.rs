//! Front ends make a `Device` visible to clients. Each front end only converts between its protocol and `Device`.
//!
//! [`nbd`] serves any device over the network block device protocol. [`volume_file`] serves a device as a file of a
//! filesystem, over the FUSE server in [`fuse`]. [`blockdev`] makes a kernel block device of such an export or file, or
//! of the device itself where the kernel has ublk. The steps common to all requests are in `requests`. All requests of
//! a daemon, through any front end, take their buffers from one bounded [`RequestMemory`].

pub mod blockdev;
pub mod fuse;
pub mod nbd;
mod requests;
pub mod volume_file;

pub use requests::{RequestMemory, kernel_errno};
