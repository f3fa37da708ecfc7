//! Front ends: what makes a `Device` visible to others. Each is protocol ↔ `Device`, nothing else.
//!
//! [`fuse`] serves any device as one file of a FUSE filesystem; [`blockdev`] makes a kernel block
//! device of what a front end serves.

pub mod blockdev;
pub mod fuse;
