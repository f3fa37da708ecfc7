//! NBD, the network block device protocol: a server for any `Device`, and `/dev/nbdN`, with the kernel as a client of
//! this server.
//!
//! - [`codec`] has the messages as bytes. It makes no system call and uses nothing outside the standard library, so it
//!   also works without the server.
//! - `server` has the server: [`NbdServer`].
//! - `kernel` attaches a `/dev/nbdN` to a server: [`attach_nbd`].
//! - [`client`] has a client for programs and tests, and [`duplex`] a connection in memory.
//!
//! Reading order: [`codec`], then `server/mod.rs` and `kernel/mod.rs`, each with its own reading order.

pub mod client;
pub mod codec;
pub mod duplex;
mod kernel;
mod server;

pub use kernel::{
    NbdDevice, NbdError, NbdOptions, attach_nbd, clear_nbd_leftover, is_of_volume, nbd_usable,
    no_nbd_leftover, waiting_nbd_device,
};
pub use server::{
    BlockStatus, ClientLimits, ExportError, NbdExport, NbdServer, NbdWire, REQUEST_BYTES_MAX,
    StatusExtent, WireFuture,
};
