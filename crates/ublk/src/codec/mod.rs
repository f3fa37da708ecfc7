//! Messages between a server and the kernel's ublk driver, and the decisions about them. This module makes no system
//! call and uses only `forebay-device`.
//!
//! It contains
//! - the encoding of the messages ([`mod@format`]);
//! - the parameters of a new device, and the check that a leftover device fits the volume ([`wish`]);
//! - the state of each tag, and the operations that each state allows ([`state`]).
//!
//! Invariants: wrong bytes from the driver can only be misread, never cause harm, so all bytes decode to a value. The
//! executor of a request must check the request against the device. A tag is never offered twice, and a request never
//! answered twice.
//!
//! Reading order: `format.rs`, `wish.rs`, `state.rs`.

pub mod format;
pub mod state;
mod unfit;
pub mod wish;

pub use unfit::LeftoverMismatch;
