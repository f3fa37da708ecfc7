//! Disk models: how long would a named real disk take?
//!
//! A model is plain state: requests go in with the instant they arrive, completions come out with
//! the instant they are done. It does no waiting and holds no data.

pub mod disk;
pub mod flash;
