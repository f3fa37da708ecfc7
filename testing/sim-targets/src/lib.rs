//! What the simulator tries: each layer as a [`TestedSystem`](forebay_sim::subject::TestedSystem), with its
//! worlds, its promises and its own checkers.
//!
//! [`cache`] is the write cache, over a log device and a data device; [`space`] the virtual storage layer, on one
//! disk, [`files`] the filesystem on that. [`aged`] goes through the life of large, nearly full volumes of that layer.

pub mod aged;
pub mod cache;
pub mod files;
pub mod space;
