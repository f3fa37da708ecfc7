//! The virtual storage layer: a sparse 64-bit space of sectors in a log, with atomic updates of many
//! ranges at once, where data is placed by a policy.
//!
//! Data goes to wherever the log is, a map says where it went, and a cleaner makes room. Everything
//! that is called a place here is on the medium, and everything that is called a sector is in the space.

mod place;

pub use place::{Place, WriteClock};
