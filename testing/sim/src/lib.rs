//! Deterministic scenarios from seeds: a production layer on failing disks with power cuts, on a virtual clock.
//!
//! A *scenario* is a number, from which a [`plan::ScenarioPlan`] follows: the disks with their speeds and faults, the
//! settings of the volume, the requests of its clients, and the power cuts. Everything else follows from
//! the plan: a seed gives the same [`tape::Tape`] on any machine. The *system under test* is a [`system::TestedSystem`]:
//! the production code, from `rt` up to the layer. Only the devices and the clock are simulated. This crate does not
//! depend on the layers.
//!
//! An *incarnation* lasts from an attach to the next crash. A *writer* is a client with its own region.
//!
//! # Faults that may be injected
//!
//! - Requests take any time, so they overtake each other; some take seconds.
//! - A power cut comes at any request, also during a recovery, and during the next one. For writes that are not
//!   flushed,
//!   completed or not, each block (512 or 4096 bytes) is kept or dropped, in any combination.
//! - A read, write, flush or discard fails: occasionally, for a while, or from some moment on. A failed write leaves
//!   any
//!   mixture of old and new blocks. A failed flush, or a failed write with FUA, may lose data that was not durable, on
//!   all disks with the same cache.
//! - By the clock, from milliseconds to hours or permanently, a disk or a place on it fails requests, or is slow.
//! - A disk has no space for new pages, for a while or permanently.
//! - The volume is closed at any moment, with requests in flight.
//! - Thousands of writes are in flight concurrently.
//! - Disks have smaller blocks than before.
//! - The process is killed and the disks continue. A later power cut loses the contents of their caches.
//! - Bytes have changed between two incarnations, if their content is also stored elsewhere.
//! - The clock leaps forward, up to an hour and more.
//! - A client sends a write twice concurrently.
//! - *Only in marked scenarios with weaker guarantees* ([`writers::CrashGuarantee::Known`]): bits change; a write goes to a
//!   wrong
//!   place; flushes and FUA are acknowledged but not done.
//!
//! The system under test decides which of these faults its scenarios have, and may add others. Not injected: torn
//! blocks (see the assumptions about media in ARCHITECTURE.md).
//!
//! # Reading order
//!
//! [`disk`] (faults), [`history`] and [`writers`] (conditions that must hold nevertheless), [`workload`], [`trace`] and
//! [`plan`] (requests and events), [`system`] (system under test), [`scenario`] (execution of a scenario), [`explore`]
//! and [`exhaustive`] (many scenarios), [`shrink`]. [`machine`] is for tests with explicit steps.

pub mod clock;
pub mod disk;
pub mod exhaustive;
pub mod explore;
pub mod history;
pub mod machine;
pub mod panics;
pub mod plan;
pub mod role;
pub mod scenario;
pub mod shrink;
pub mod stamp;
pub mod system;
pub mod tape;
pub mod trace;
mod violation;
pub mod workload;
pub mod writers;

pub use violation::Violation;
