//! Arrays of devices as one device: [`Striped`] is RAID-0, [`Parity`] is RAID-5.
//!
//! Invariants of the array with parity, where a *column* is the bytes at one place of all members:
//! - The sum (exclusive or) of what members should have in a column is zero, unless a write there is under
//!   way, or a crash has cut one.
//! - What a member has is what it should have, unless it is known to be stale there. What is stale is never
//!   given out: it is told from the other members, or refused.
//! - Whoever writes a column, or reads all members in it, holds the lock on it.
//!
//! Reading order: `docs/design/raid.md`; `common.rs` (who has which part of a request), `striped.rs`;
//! `rotation.rs` (the layout), `settle.rs` (who is stale when something failed), `plan.rs` (what is read to
//! write), `member.rs` and `array.rs` (what is known), `ask.rs`, `parity.rs`, `read.rs`, `write.rs`,
//! `repair.rs`.

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
pub use parity::Parity;
pub use repair::{Rebuilt, Resynced};
pub use stats::ParityStats;
pub use striped::Striped;
