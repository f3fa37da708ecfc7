//! A scrub of an attached volume: reads all data in the background, and compares it with its checksums.
//!
//! `state.rs` has the progress and the result, `pace.rs` decides when the next piece is read, and `run.rs` reads.

pub(crate) mod pace;
pub(crate) mod plain;
pub(crate) mod run;
pub(crate) mod state;
