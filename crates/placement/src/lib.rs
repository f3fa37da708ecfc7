//! Placement of data in a log-structured volume, choice of the segments to clean, and the cost of both. This crate only
//! makes decisions, and never carries them out. All types are plain state; no function waits.
//!
//! Start with `cost.rs`, the cost model on which the rest depends. Then read
//!
//! - `placement.rs`: choice of the stream for data, or of overwriting in place.
//! - `victim.rs`: choice of the segments to clean.
//! - `wear.rs`: choice of free segments, and of the data to move because of wear.
//! - `pace.rs`: start and urgency of cleaning, and the rate of client writes meanwhile.

mod clock;
pub mod cost;
pub mod pace;
pub mod placement;
pub mod victim;
pub mod wear;

pub use clock::WriteClock;
