//! `/dev/ublkbN`: a block device whose requests the kernel's ublk driver hands to this process, on the
//! ring of its own executor (Linux 6.5; docs/design/ublk.md).
//!
//! A device that can be taken up again outlives its server. When that is killed, or leaves
//! ([`UblkDevice::hand_over`]), requests wait, and the next server of the same volume has them all:
//! what mounted the device sees a pause. So two things must hold, or the pause would be a lie:
//! - what was acknowledged is there without the server that did it, flushed or not;
//!   [`UblkOptions::recoverable`] is for devices of which that is true;
//! - there is never a second block device of the same volume. The driver keeps 64 bits for us with each
//!   device: they say which volume it is, and every attach looks for them first.
//!
//! The bytes, what a device is to be and how each place for a request stands are in the crate `ublk`,
//! which asks nothing of the system. Reading order: `serving.rs`, `device.rs`, `leftover.rs`.

mod char_device;
mod control;
mod device;
mod error;
mod leftover;
mod serving;

pub use device::{UblkDevice, UblkOptions, attach_ublk, ublk_usable};
pub use error::UblkError;
pub(super) use leftover::volume_of;
pub use leftover::{clear_ublk_leftover, waiting_ublk_device};
