//! Kernel block devices that front ends make: recognition, users, and write-back of the page cache.
//!
//! Mistakes with a block device are costly: a device torn down under a mounted filesystem loses data, and a device
//! whose server was killed stays behind without function. Hence two rules for every front end. First, detaching
//! refuses, and names the users of the device, before it changes anything. Second, every block device of a front end
//! can be recognised and removed after its server was killed.

mod cached;
mod held;
mod holders;

pub use cached::write_back;
pub use held::OwnBlockDevice;
pub use holders::{DeviceHolder, DeviceHolders, LOOK_EVERY, LOOKS, holders, lasting_holders};
