//! `/dev/ublkbN`: a block device whose requests the kernel's ublk driver passes to this process, on the ring of its own
//! executor (Linux 6.5; docs/design/ublk.md).
//!
//! A recoverable device outlives its server. When the server is killed, or leaves ([`UblkDevice::hand_over`]), requests
//! wait, and the next server of the volume gets all of them: a filesystem on the device sees a pause. Two conditions
//! must hold, or the pause would hide a loss:
//! - Acknowledged writes survive the end of their server without a flush; [`UblkOptions::recoverable`] is only for
//!   devices with this property.
//! - A second block device of the same volume never exists. The driver stores 64 bits with each device, which identify
//!   the volume; every attach first looks for these bits.
//!
//! The module [`codec`] contains the encoding, the choice of a device's parameters, and the state of each tag, without a
//! system call. It uses only `forebay-device`, so it also works without the server.
//!
//! Reading order: [`codec`], then `serving.rs`, `device.rs`, `leftover.rs`.

mod char_device;
pub mod codec;
mod control;
mod device;
mod error;
mod leftover;
mod serving;

pub use device::{UblkDevice, UblkOptions, attach_ublk, ublk_usable};
pub use error::UblkError;
pub use leftover::{clear_ublk_leftover, is_of_volume, waiting_ublk_device};
