//! Output of a command: its results, its progress, and its failure with the exit code.
//!
//! - A command either succeeds, or reports the obstacle in one line ([`failure`]).
//! - Results go to stdout ([`output`]); progress goes to stderr ([`progress`]).
//!
//! Reading order: `failure.rs`, `output.rs`, `progress/`.

pub mod failure;
pub mod output;
pub mod progress;
