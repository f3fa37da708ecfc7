//! Disk models: the durations of requests on real, named disks.
//!
//! A model is plain state: requests enter with their time of arrival, and completions leave with their time. It does
//! not wait and stores no data. [`EmulatedDisk`] waits and has the data: a device with the timing of a model.
//!
//! Reading order: `disk`, the mechanical disk; `flash`, plain flash chips; `emulated.rs` (which waits with
//! `clockwork.rs`); `zoned.rs`, the zones of a shingled disk.

mod clockwork;
pub mod disk;
mod drive;
mod emulated;
mod even;
pub mod flash;
mod lateness;
mod zoned;

pub use drive::Drive;
pub use emulated::{EmulatedDisk, EmulatedError, TimingModel};
pub use even::EvenDisk;
pub use lateness::Lateness;
pub use zoned::{ZoneError, ZoneUsage, ZonedDevice, ZonedDeviceError};
