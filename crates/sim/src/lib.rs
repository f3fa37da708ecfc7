//! Worlds in a seed: the shipping code on disks that fail, under power cuts, on a virtual clock.
//!
//! A *world* is a number. From it follow a [`plan::Plan`] (two disks and how fast and how honest they
//! are, how the volume is attached, what its users do, when the power goes) and from that all that
//! happens: the same seed gives the same [`tape::Tape`], on any machine. Under test is the very code
//! that ships, from `rt` up to `dcd`; only the devices and the clock are ours.
//!
//! # Faults that may be injected
//!
//! - Requests take any time, so they overtake one another; some take seconds.
//! - A power cut comes at any request, also within a recovery, and within the next. Of writes not
//!   flushed, finished or not, each block (512 or 4096 bytes) is kept or dropped, in any combination.
//! - A read, write, flush or discard fails: now and then, for a while, or from some moment on. A write
//!   that failed leaves any mixture of old and new blocks; a flush that failed may lose what it was
//!   for.
//! - By the clock, from milliseconds to hours or for good: either device, or both as parts of one
//!   disk, fails what it is asked; so do places at home that are written, places of the log that are
//!   read, and the log's superblocks, in part or whole, once the log has failed.
//! - The data device has no space for pages not yet written, for a while or for good.
//! - The volume is closed at any moment, whatever is under way.
//! - Thousands of writes are under way at once.
//! - The log device, the data device or both have smaller blocks than before.
//! - The log device was something else before, and its segments still hold that.
//! - The map may take little memory. The log is full while the data device is away or slow.
//! - The process is killed and the disks go on; what is in their caches goes with the power later.
//! - The log device is gone after a crash, and an empty one in its place.
//! - The clock leaps forward, up to an hour and more.
//! - A client sends a write twice at the same time.
//! - *Only in worlds marked so, where less can be promised* ([`checkers::Promise::Known`]): bits of the
//!   log change; a write to the log lands elsewhere; flushes and FUA are acknowledged and not done.
//!
//! Not injected: rot and stray writes on the data device (nothing there has a checksum), and torn
//! blocks (see what ARCHITECTURE.md assumes of media).
//!
//! # Reading order
//!
//! [`disk`] (what fails), [`history`] and [`checkers`] (what must be true all the same), [`workload`]
//! and [`plan`] (what happens), [`world`] (its happening), [`explore`] and [`exhaustive`] (many of
//! them), [`shrink`]. [`lab`] is for tests that do things by hand.

pub mod checkers;
pub mod disk;
pub mod exhaustive;
pub mod explore;
pub mod history;
pub mod lab;
mod panics;
pub mod plan;
pub mod shrink;
pub mod stamp;
pub mod tape;
pub mod workload;
pub mod world;
