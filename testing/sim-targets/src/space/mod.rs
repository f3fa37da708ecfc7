//! The virtual storage layer as a subject: a volume of fixed length on one disk.
//!
//! # Faults of its worlds
//!
//! Beside what any disk of the simulator may do wrong:
//!
//! - The disk refuses requests now and then, for a while, or for good; or only reads.
//! - Volumes may be nearly as large as what can be mapped, so that the cleaner works all the time.
//! - The map may have little memory, and checkpoints come often or seldom.
//! - Superblocks, or other durable writes, fail, of a disk that forgets its cache then and reports the failure late.
//! - Recoveries are cut one after the other, by the power or because the process is killed.
//! - Behind the last life of a volume that was flushed and idle, one byte has changed: what was flushed is there, or gives errors.
//! - *Only in worlds marked so, where less can be promised*
//!   ([`CrashGuarantee::Known`](forebay_sim::lanes::CrashGuarantee::Known)): bits of the disk change; a write lands elsewhere;
//!   flushes and FUA are acknowledged and not done.
//!
//! # Reading order
//!
//! `settings.rs` (what differs from world to world), `volume.rs` (how a volume is made and attached),
//! `subject.rs` (what it promises), `numbers.rs` (epochs and numbers of segments), `rot.rs` (rot behind the last life), `plan.rs` (what may happen).

mod numbers;
mod plan;
mod rot;
mod settings;
mod subject;
mod volume;

pub use settings::{SpaceDisk, SpaceFaultKind, SpaceTarget};
pub use volume::AttachedSpace;
