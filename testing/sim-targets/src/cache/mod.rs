//! The write cache as a system under test: a log device and a data device.
//!
//! # Faults of its scenarios
//!
//! In addition to the faults of any simulated disk:
//!
//! - For milliseconds, for hours or permanently, by the clock: requests of either device fail, or requests of both as
//!   parts of one disk. Writes to places of the data device and reads of places of the log also fail. Once the log has
//!   failed, writes of its superblocks fail in part or completely.
//! - Both devices are parts of one disk: a failed flush of either loses the unflushed writes of both.
//! - The data device has no space for unwritten pages, temporarily or permanently.
//! - The log device, the data device or both have smaller blocks than before.
//! - The log device had another use before, and its segments still contain the old data.
//! - The map's memory may be small. The log is full while the data device is missing or slow.
//! - Summaries in the log rot. The records' headers contain the same data, so nothing is lost.
//! - An administrator declares unreadable data of the log lost.
//! - The log device is missing after a crash, and an empty device replaces it.
//! - Another device becomes the log of the volume in use, at any moment, also while devices fail or the volume closes.
//! - The volume is frozen at any moment, also while devices fail or hang, and its devices are copied.
//! - *Only in marked scenarios, with weaker guarantees*
//!   ([`CrashGuarantee::Known`](forebay_sim::writers::CrashGuarantee::Known)): bits of the log change. A write to the log
//!   goes to another place. The disks acknowledge flushes and FUA without executing them.
//!
//! Not injected: rot and stray writes on the data device, which has no checksums.
//!
//! # Reading order
//!
//! `settings.rs` (the differences between scenarios), `volume.rs` (making and attaching a cache) with `freezable.rs` and
//! `spare.rs`, `system.rs` (its guarantees), [`checkers`] (its further conditions), [`plan`] (its possible events). Tests
//! that execute single steps use [`testbed`].

pub mod checkers;
mod freezable;
pub mod plan;
mod settings;
mod spare;
mod system;
pub mod testbed;
pub mod volume;

pub use freezable::FreezableCache;
pub use settings::{CacheDisk, CacheFaultKind, CacheTarget};
