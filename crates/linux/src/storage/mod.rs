//! Files and block devices as [`forebay_device::Device`]s: opening them safely, I/O, and their identity.

mod below;
mod bounce;
mod busy;
mod create;
mod disk;
mod error;
mod identity;
mod mountinfo;
mod open;
mod probe;
mod small_blocks;
mod sysfs;

pub use below::{CommonDisk, UnderlyingDisks, loop_devices_over};
pub use create::{create_file, zero_fill};

pub use error::{DeviceOpenError, DeviceUsers, FileCreateError};
pub use identity::{DeviceIdentity, DeviceKind, NodeId, identity, node_id};
pub use mountinfo::{MountEntry, mounts, system_mounts};
pub use open::{DeviceOpenOptions, LockedDevice, open};
