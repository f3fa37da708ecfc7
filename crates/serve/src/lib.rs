//! Front ends: what makes a `Device` visible to others. Each is protocol ↔ `Device`, nothing else.
//!
//! [`nbd`] serves any device over the network block device protocol.

pub mod nbd;
