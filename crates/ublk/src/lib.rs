//! What is said between a program and the kernel's ublk driver, and what has to be decided about it,
//! without a system call: docs/design/ublk.md.
//!
//! The driver makes block devices of which a program serves the requests. Here is
//! - what the bytes are that the two exchange ([`mod@format`]);
//! - what a device is to be, and whether one that another server left is the like of it ([`wish`]);
//! - where each place for a request stands, and so what may be said of it ([`state`]).
//!
//! The commands are given, and the requests carried out, by `serve`.
//!
//! Invariants: bytes from the driver are never trusted with more than to be misread, so any decode to
//! something, and what a request asks for is checked against the device by whoever carries it out. A tag
//! is never offered, nor a request answered, twice.
//!
//! Reading order: `format.rs`, `wish.rs`, `state.rs`.

pub mod format;
pub mod state;
mod unfit;
pub mod wish;

pub use unfit::Unfit;
