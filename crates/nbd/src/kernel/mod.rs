//! `/dev/nbdN`: the kernel as the client of an NBD server in this process.
//!
//! The kernel gets one end of a socket pair and begins with requests; the server uses the other end without a
//! handshake. Two kinds of device differ in the way of passing this end to the kernel.
//! - Through the driver's netlink family (`by_driver.rs`): the driver keeps the connection. When the server is killed,
//!   or leaves ([`NbdDevice::let_wait`]), the driver keeps the requests until the next server has connected. A
//!   filesystem on the device sees a pause. So acknowledged writes must survive the end of their server without a
//!   flush: [`NbdOptions::recoverable`]. The driver stores a string with each device, which identifies the volume;
//!   every attach first looks for this string.
//! - Through the classic calls (`by_thread.rs`): a thread of this process keeps the connection, and the device fails
//!   when the thread ends.
//!
//! Reading order: `device.rs`, `by_driver.rs`, `netlink.rs`; `by_thread.rs`, `note.rs`.

mod by_driver;
mod by_thread;
mod device;
mod error;
mod netlink;
mod note;

pub use by_driver::{clear_nbd_leftover, is_of_volume, nbd_usable, waiting_nbd_device};
pub use by_thread::no_nbd_leftover;
pub use device::{NbdDevice, NbdOptions, attach_nbd};
pub use error::NbdError;
