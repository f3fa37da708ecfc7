//! Front ends: what makes a `Device` visible to others. Each is protocol ↔ `Device`, nothing else.
//!
//! [`nbd`] serves any device over the network block device protocol; [`fuse`] as one file of a FUSE
//! filesystem; [`blockdev`] makes a kernel block device of what a front end serves. All requests of a
//! daemon, whichever way they come, take their buffers from one bounded [`Memory`].

pub mod blockdev;
pub mod fuse;
mod memory;
pub mod nbd;

pub use memory::Memory;
