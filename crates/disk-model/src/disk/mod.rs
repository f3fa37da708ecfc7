//! The mechanical disk.
//!
//! A [`MechanicalDisk`] is plain state with time as an argument. [`MechanicalDisk::submit`] takes a request and its time,
//! [`MechanicalDisk::next_event`] returns the time of the next event, and [`MechanicalDisk::advance`] advances to a time and returns the
//! requests completed until then. A disk stores no data, only the places and times of data.
//!
//! Parameters come as a [`DiskSpec`], by name ([`named()`]) or from a table ([`DiskSpec::parse`]).
//!
//! Modules, in reading order: `geometry` maps blocks to places; `mechanics` computes positions of the heads and
//! durations of transfers; `cache` is the drive's cache, and `ahead` a read-ahead in progress; `queue` chooses the next
//! request; `drive` combines them. docs/design/model.md describes the modelled effects, the reasons, and the accuracy
//! compared with real drives.

mod ahead;
mod cache;
mod drive;
mod geometry;
mod mechanics;
mod named;
mod options;
mod queue;
mod spec;
mod table;
mod times;

pub use drive::MechanicalDisk;
pub use named::{named, names};
pub use options::{
    CacheChoice, DiskCompletion, DiskOp, DiskOptions, EnabledCaches, Scheduling, ServiceTimes,
};
pub use spec::DiskSpec;
pub use table::SpecTableError;
