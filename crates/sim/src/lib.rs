//! Worlds in a seed: the shipping code on disks that fail, under power cuts, on a virtual clock.

pub mod checkers;
pub mod disk;
pub mod exhaustive;
pub mod explore;
pub mod history;
pub mod lab;
mod panics;
pub mod plan;
mod rng;
pub mod shrink;
pub mod stamp;
pub mod tape;
pub mod workload;
pub mod world;

pub use rng::{Rng, mix};
