//! How long would it take to read which part of a file?
//!
//! The idea is from *Latency Management in Storage Systems* by Rodney Van Meter and Minxi Gao
//! (OSDI 2000), below "the paper".
//!
//! Programs read a file through a [`Reader`], which gives out every byte once, in the order the
//! [`Plan`] says.

mod read;

pub use read::{Piece, Plan, ReadOptions, Reader, Unit};
