//! `/dev/nbdN`: the kernel as the client of an NBD server in this process.
//!
//! The kernel gets one end of a socket pair and begins with requests; the server takes over the other
//! end without a handshake. There are two ways to give it that end, for two kinds of device.
//! - By the driver's netlink family (`by_driver.rs`): the driver keeps the connection, and when the server
//!   is killed, or leaves ([`NbdDevice::let_wait`]), it keeps the requests until another has come. What
//!   mounted the device sees a pause. So what was acknowledged must be there without the server that did
//!   it, flushed or not: [`NbdOptions::recoverable`]. The driver keeps a string for us with each device;
//!   it says which volume it is, and every attach looks for it first.
//! - By the classic calls (`by_thread.rs`): a thread of this process keeps the connection, and the device
//!   fails when it ends.
//!
//! Reading order: `device.rs`, `by_driver.rs`, `netlink.rs`; `by_thread.rs`, `note.rs`.

mod by_driver;
mod by_thread;
mod device;
mod error;
mod netlink;
mod note;

pub(super) use by_driver::backend;
pub use by_driver::{clear_nbd_leftover, nbd_usable, waiting_nbd_device};
pub use by_thread::no_nbd_leftover;
pub use device::{NbdDevice, NbdOptions, attach_nbd};
pub use error::NbdError;
pub(super) use note::{SYS_BLOCK, connection};
