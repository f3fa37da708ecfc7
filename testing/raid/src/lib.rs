//! Arrays of devices as one device: [`StripedArray`] is RAID-0, [`ParityArray`] is RAID-5.
//!
//! Invariants of the array with parity, where a *column* is the bytes at one position of all members:
//! - The sum (exclusive or) of the correct contents of all members in a column is zero, unless a write is under way in
//!   the column or was interrupted by a crash.
//! - The content of a member is correct unless it is recorded as stale. Stale content is never returned to clients:
//!   reads reconstruct it from the other members, or fail.
//! - A request that writes a column, or reads all members in it, holds the lock on the column.
//!
//! Reading order: `docs/design/raid.md`; `common.rs` (shares of members in a request), `striped.rs`; `rotation.rs` (the
//! layout), `settle.rs` (stale members after a failure), `plan.rs` (reads before a write), `member.rs` and `array.rs`
//! (the state), `ask.rs`, `parity.rs`, `read.rs`, `write.rs`, `repair.rs`.

mod array;
mod ask;
mod common;
mod cuts;
mod error;
mod member;
mod parity;
mod plan;
mod read;
mod repair;
mod rotation;
mod settle;
mod stats;
mod striped;
mod write;
mod xor;

pub use error::ArrayError;
pub use parity::ParityArray;
pub use repair::{RebuildReport, ResyncReport};
pub use stats::ParityStats;
pub use striped::StripedArray;
