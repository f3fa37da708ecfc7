//! The log-structured volume as a system under test: a volume of fixed length on one disk.
//!
//! # Faults of its scenarios
//!
//! In addition to the faults of any simulated disk:
//!
//! - The disk fails requests occasionally, for a while, or permanently; or only reads.
//! - The length of volumes may be nearly the mappable length, so that the cleaner works all the time.
//! - The map's memory may be small, and checkpoints may be frequent or rare.
//! - Writes of superblocks, or other durable writes, fail. The disk then loses its cache and reports the failure late.
//! - Several consecutive recoveries are cut, by a power cut or by a kill of the process.
//! - The volume is frozen at any moment, also while the disk fails or hangs, and the disk is copied.
//! - After the last incarnation of a flushed and idle volume, one byte has changed. The flushed data must be present,
//!   or its reads return errors.
//! - *Only in marked scenarios, with weaker guarantees*
//!   ([`CrashGuarantee::Known`](forebay_sim::writers::CrashGuarantee::Known)): bits of the disk change. A write goes to
//!   another place. The disk acknowledges flushes and FUA without executing them.
//!
//! # Reading order
//!
//! `settings.rs` (the differences between scenarios), `volume.rs` (making and attaching a volume), `system.rs` (its
//! guarantees), `numbers.rs` (epochs and numbers of segments), `rot.rs` (rot after the last incarnation), `plan.rs`
//! (the possible events).

mod numbers;
mod plan;
mod rot;
mod settings;
mod system;
mod volume;

pub use settings::{SpaceDisk, SpaceFaultKind, SpaceTarget};
pub use volume::AttachedSpace;
