//! The write cache as a subject: a log device and a data device.
//!
//! # Faults of its worlds
//!
//! Beside what any disk of the simulator may do wrong:
//!
//! - By the clock, from milliseconds to hours or for good: either device, or both as parts of one
//!   disk, fails what it is asked; so do places at home that are written, places of the log that are
//!   read, and the log's superblocks, in part or whole, once the log has failed.
//! - Both devices are parts of one disk: a failed flush of either loses the unflushed writes of both.
//! - The data device has no space for pages not yet written, for a while or for good.
//! - The log device, the data device or both have smaller blocks than before.
//! - The log device was something else before, and its segments still hold that.
//! - The map may take little memory. The log is full while the data device is away or slow.
//! - Summaries in the log rot: what they say stands in the records' headers, too, so nothing is lost.
//! - An administrator gives up what cannot be read from the log.
//! - The log device is gone after a crash, and an empty one in its place.
//! - *Only in worlds marked so, where less can be promised*
//!   ([`CrashGuarantee::Known`](forebay_sim::lanes::CrashGuarantee::Known)): bits of the log change; a write to the log
//!   lands elsewhere; flushes and FUA are acknowledged and not done.
//!
//! Not injected: rot and stray writes on the data device (nothing there has a checksum).
//!
//! # Reading order
//!
//! `settings.rs` (what differs from world to world), `volume.rs` (how a cache is made and attached),
//! `subject.rs` (what it promises), [`checkers`] (what else must be true of it), [`plan`] (what may
//! happen). [`testbed`] is for tests that do things by hand.

pub mod checkers;
pub mod plan;
mod settings;
mod subject;
pub mod testbed;
pub mod volume;

pub use settings::{CacheDisk, CacheFaultKind, CacheTarget};
