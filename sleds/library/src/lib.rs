//! Estimates the time that reading each part of a file takes.
//!
//! The idea is from *Latency Management in Storage Systems* by Rodney Van Meter and Minxi Gao (OSDI 2000), called "the
//! paper" below.
//!
//! Programs read a file through a [`Reader`], which returns every byte once, in the order of the [`Plan`]. Tasks of an
//! executor use an [`AsyncReader`].

pub mod calibrate;
mod delivery;
mod describe;
mod device;
mod extents;
mod forebay;
pub mod format;
mod level;
mod located;
mod memory;
mod mounts;
mod observed;
mod pick;
mod read;
mod records;
mod residency;
mod schedule;
mod sys;
mod table;

pub use delivery::{Delivery, Estimate, Estimator, delivery_time, delivery_time_in};
pub use describe::{DescribeError, Describer, Sled, describe, level_of};
pub use device::{Class, Device, Place};
#[doc(hidden)]
pub use forebay::answers;
pub use level::Level;
pub use memory::cache_capacity;
pub use mounts::{Mount, mounts};
pub use observed::forget as forget_observations;
pub use pick::{Pick, PickOptions, Picker};
pub use read::{AsyncReader, Piece, Plan, ReadOptions, Reader, Unit};
pub use residency::{Presence, Run, residency};
pub use table::{Entry, Rates, Source, Spread, Table, TableError, Zone, machine, usual};
