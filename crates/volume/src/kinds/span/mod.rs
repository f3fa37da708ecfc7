//! The span: two devices, one after the other, as one volume.
//!
//! `spec.rs` declares the kind, and `kind.rs` implements it. `format.rs` is the superblock of each device, `devices.rs`
//! the two opened devices, and `joined.rs` the device over both. `attached.rs` is the attached volume, `report.rs` its
//! report.
//!
//! The span adds no guarantee and removes none: a flush flushes both devices, and a write over the boundary is two
//! writes, of which a crash can leave one, as with any write of several blocks.

mod attached;
mod create;
mod devices;
mod error;
mod format;
#[cfg(test)]
mod format_tests;
mod joined;
mod kind;
mod report;
mod scrub;
mod spec;

pub(crate) use kind::SpanKind;
