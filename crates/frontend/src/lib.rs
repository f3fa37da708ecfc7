//! Shared parts of the front ends. A front end makes a `Device` visible to clients, and only converts between its
//! protocol and `Device`.
//!
//! [`requests`] has the steps common to all requests. All requests of a daemon, through any front end, take their
//! buffers from one bounded [`RequestMemory`](requests::RequestMemory). [`freeze`] holds writes back.
//! [`block_device`] recognises a kernel block device that a front end made, and finds its users.
//!
//! The front ends are the crates `ublk`, `nbd` and `loopdev`, and the filesystem `mount`. The last two use the FUSE
//! server of the crate `fuse`. This crate contains nothing of a protocol.
//!
//! Reading order: `requests/mod.rs`, then its files in the order of the steps; `block_device/held.rs`,
//! `block_device/holders.rs`.

pub mod block_device;
pub mod freeze;
pub mod requests;
