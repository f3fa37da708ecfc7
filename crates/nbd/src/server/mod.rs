//! A server of the NBD protocol (network block device, fixed newstyle), for any `Device`.
//!
//! It runs on the volume's own executor, so a request goes from the socket to the device, and its reply back, without a
//! thread switch or a lock. [`NbdServer`] is given connections (anything that is a [`NbdWire`], or the connections that a
//! listening socket accepts) and serves [`NbdExport`]s to them:
//!
//! ```text
//!  Wire ─▶ inbox ─▶ handshake ─▶ request::check ─▶ execute ─▶ Device
//!   ▲                             (invalid requests  │
//!   └──────────── outbox ◀─────── are refused here) ◀┘
//! ```
//!
//! Guarantees to clients:
//! - A write of up to 1 MiB is one request to the device, so it is as atomic as the device's writes. Larger writes go
//!   to the device in parts of 1 MiB as they arrive. If the client disconnects during such a write, some of its parts
//!   may be written.
//! - A flush covers the writes answered before on any connection, so clients may use several connections at once.
//! - Requests go to the device in the order of their arrival on a connection. They are answered in the order of their
//!   completion.
//! - `base:allocation` contains the state of ranges, as far as the export's [`BlockStatus`] knows the state. An export
//!   can have a context of its own, too.
//! - An invalid request is answered with an error (`EINVAL`, `ENOSPC` past the end, `EPERM` on a read-only export), and
//!   the connection continues. Bytes that are not a request end the connection.
//!
//! Clients cannot, whatever they send, make the server hold more than [`ClientLimits`] and the bound of its
//! [`RequestMemory`](forebay_frontend::requests::RequestMemory) allow, block another client, or stop the server. The
//! module [`codec`](crate::codec) decodes and encodes all bytes, and does not allocate by a received length.
//!
//! Left out on purpose: TLS (put a tunnel in front), the old style handshake, `CACHE`, `RESIZE`, extended headers.
//!
//! Reading order: `codec/format.rs`, `handshake.rs`, `request.rs`, `execute.rs`, then the transport in
//! `transmission.rs`, `connection.rs`, `inbox.rs`, `outbox.rs`, and `nbd_server.rs` for the start and end of
//! connections.

mod connection;
mod execute;
mod export;
mod handshake;
mod hangup;
mod inbox;
mod limits;
mod nbd_server;
mod outbox;
mod request;
mod socket;
mod status;
mod transmission;
mod wire;

pub use export::{ExportError, NbdExport, REQUEST_BYTES_MAX};
pub use limits::ClientLimits;
pub use nbd_server::NbdServer;
pub(crate) use socket::NbdSocket;
pub use status::{BlockStatus, StatusExtent};
pub use wire::{NbdWire, WireFuture};
