//! Estimates the time that reading each part of a file takes.
//!
//! The idea is from *Latency Management in Storage Systems* by Rodney Van Meter and Minxi Gao (OSDI 2000), called "the
//! paper" below.
//!
//! Programs read a file through a [`FileReader`], which returns every byte once, in the order of the [`ReadPlan`]. Tasks of an
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
mod pin;
mod plan;
mod read;
mod records;
mod residency;
mod schedule;
mod sys;
mod table;

pub use delivery::{DeliveryTime, Estimator, ReadEstimate, delivery_time, delivery_time_in};
pub use describe::{DescribeError, Describer, Sled, describe, level_of};
pub use device::{DeviceClass, FilePlace, StorageDevice};
#[doc(hidden)]
pub use forebay::answers;
pub use level::StorageLevel;
pub use memory::cache_capacity;
pub use mounts::{MountedFilesystem, mounts};
pub use observed::forget as forget_observations;
pub use pick::{Pick, PickOptions, ReadPicker};
pub use pin::PinnedFile;
pub use plan::{ReadPlan, ReadUnit};
pub use read::{AsyncReader, FilePiece, FileReader, ReadOptions};
pub use residency::{
    CacheCounts, HiddenResidency, Presence, PresenceRange, cache_counts, hidden_residency,
    residency,
};
pub use table::{
    DeviceEntry, DeviceTable, DeviceTableError, DeviceZone, EstimateRange, RateSource, ReadRates,
    machine, usual,
};
