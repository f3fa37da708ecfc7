//! Worlds in a seed: the shipping code on disks that fail, under power cuts, on a virtual clock.

pub mod disk;
pub mod history;
pub mod lab;
mod rng;
pub mod stamp;

pub use rng::{Rng, mix};
