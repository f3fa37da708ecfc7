//! The systems under test of the simulator. Each layer is a [`TestedSystem`](forebay_sim::system::TestedSystem) with
//! its scenarios, its guarantees and its own checkers.
//!
//! [`cache`] is the write cache over a log device and a data device. [`space`] is the log-structured volume on one
//! disk, and [`files`] is the filesystem on such a volume. [`aged`] executes scenarios of large, nearly full
//! log-structured volumes.

pub mod aged;
pub mod cache;
pub mod files;
pub mod space;
