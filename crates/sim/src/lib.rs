//! Worlds in a seed: a layer that ships, on disks that fail, under power cuts, on a virtual clock.
//!
//! A *world* is a number. From it follow a [`plan::Plan`] (disks and how fast and how honest they are,
//! how the volume is attached, what its users do, when the power goes) and from that all that happens:
//! the same seed gives the same [`tape::Tape`], on any machine. Under test is a [`subject::Subject`]:
//! the very code that ships, from `rt` up to the layer; only the devices and the clock are ours. What
//! the layers are, this crate does not know.
//!
//! # Faults that may be injected
//!
//! - Requests take any time, so they overtake one another; some take seconds.
//! - A power cut comes at any request, also within a recovery, and within the next. Of writes not
//!   flushed, finished or not, each block (512 or 4096 bytes) is kept or dropped, in any combination.
//! - A read, write, flush or discard fails: now and then, for a while, or from some moment on. A write
//!   that failed leaves any mixture of old and new blocks; a flush that failed, or a write with FUA,
//!   may lose what was not durable, of all disks with the same cache.
//! - By the clock, from milliseconds to hours or for good, a disk or a place on it fails what it is
//!   asked, or takes long.
//! - A disk has no space for pages not yet written, for a while or for good.
//! - The volume is closed at any moment, whatever is under way.
//! - Thousands of writes are under way at once.
//! - Disks have smaller blocks than before.
//! - The process is killed and the disks go on; what is in their caches goes with the power later.
//! - Bytes have changed from one life to the next, where all that they say stands elsewhere, too.
//! - The clock leaps forward, up to an hour and more.
//! - A client sends a write twice at the same time.
//! - *Only in worlds marked so, where less can be promised* ([`lanes::Promise::Known`]): bits change; a
//!   write lands elsewhere; flushes and FUA are acknowledged and not done.
//!
//! Which of them a subject's worlds have, and what else, the subject says. Not injected: torn blocks
//! (see what ARCHITECTURE.md assumes of media).
//!
//! # Reading order
//!
//! [`disk`] (what fails), [`history`] and [`lanes`] (what must be true all the same), [`workload`], [`trace`] and
//! [`plan`] (what happens), [`subject`] (to what), [`world`] (its happening), [`explore`] and
//! [`exhaustive`] (many of them), [`shrink`]. [`machine`] is for tests that do things by hand.

pub mod clock;
pub mod disk;
pub mod exhaustive;
pub mod explore;
pub mod history;
pub mod lanes;
pub mod machine;
pub mod panics;
pub mod plan;
pub mod role;
pub mod shrink;
pub mod stamp;
pub mod subject;
pub mod tape;
pub mod trace;
mod violation;
pub mod workload;
pub mod world;

pub use violation::Violation;
