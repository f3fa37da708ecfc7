//! A server of the NBD protocol (network block device, fixed newstyle), for any `Device`.
//!
//! It runs on the volume's own executor, so a request goes from the socket to the device and its
//! reply back without a thread switch or a lock. [`Server`] is given connections (anything that is a
//! [`Wire`], or what a listening socket accepts) and serves [`Export`]s to them:
//!
//! ```text
//!  Wire ─▶ inbox ─▶ handshake ─▶ request::check ─▶ execute ─▶ Device
//!   ▲                             (what is wrong     │
//!   └──────────── outbox ◀─────── is refused here) ◀─┘
//! ```
//!
//! What clients are promised:
//! - A write of up to 1 MiB is one request to the device, so it is as atomic as the device makes it;
//!   larger ones go down in parts of 1 MiB as they arrive. Of one whose client goes away in the middle,
//!   some parts may be written.
//! - A flush covers what was answered before on any connection, so clients may use several at once.
//! - Requests are handed to the device in the order they arrive on a connection, and answered in
//!   the order they finish.
//! - `base:allocation` tells the state of ranges, as far as the export's [`BlockStatus`] knows it; so
//!   does a context of its own, if it has one.
//! - What is wrong with a request is answered (`EINVAL`, `ENOSPC` past the end, `EPERM` where
//!   read-only) and the connection goes on. What is not a request ends it.
//!
//! And what clients cannot do, whatever they send: make the server hold more than [`Limits`] and the
//! bound of its [`crate::Memory`] allow, keep another client from getting on, or stop the server. The
//! bytes are all in the crate `nbd`; nothing there allocates by a length that was received.
//!
//! Left out on purpose: TLS (put a tunnel in front), the old style handshake, `CACHE`, `RESIZE`,
//! extended headers.
//!
//! Reading order: `nbd/src/format.rs`, `handshake.rs`, `request.rs`, `execute.rs`, then the plumbing in
//! `transmission.rs`, `connection.rs`, `inbox.rs`, `outbox.rs`, and `server.rs` for the ends.

pub mod client;
mod connection;
pub mod duplex;
mod execute;
mod export;
mod handshake;
mod hangup;
mod inbox;
mod limits;
mod outbox;
mod request;
mod server;
mod socket;
mod status;
mod transmission;
mod wire;

pub use export::{Export, ExportError, REQUEST_BYTES_MAX};
/// Every byte of the protocol.
pub use forebay_nbd::format;
pub use limits::Limits;
pub use server::Server;
pub(crate) use socket::Socket;
pub use status::{BlockStatus, Extent};
pub use wire::{Wire, WireFuture};
