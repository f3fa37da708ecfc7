//! A FUSE server: what the kernel asks of a mounted filesystem, handed to a `Handler`.
//!
//! # Why the protocol is spoken here, and not by a library
//!
//! The `fuser` crate was tried first. Its session owns a thread, so each request crossed to the
//! volume's executor and its reply was sent from there. With a server that does nothing but copy
//! memory, 4 KiB at depth 32 through a loop device on two cores, the crossing alone cost a tenth to
//! a quarter of the requests a second, before the volume's own work; reading `/dev/fuse` on the
//! executor's thread cost nothing that could be measured (`examples/compare.sh` measures it again).
//! It saves a copy as well: the data of a large write is read from the kernel straight into an
//! aligned buffer that goes down the stack, while a library has to lend its own.
//!
//! What is exchanged is in `forebay-fuse`.
//!
//! # How requests flow
//!
//! ```text
//!  /dev/fuse ─▶ channel ─▶ inbox ─▶ session ─▶ Handler: answers an Arrival at once,
//!      ▲                                          │     or begins it
//!      └──────── channel ◀──────────────────── Underway
//! ```
//!
//! One task waits until `/dev/fuse` is readable and takes requests until there are none. Each that
//! is begun goes as far as it can at once, and becomes a task of its own if it must wait;
//! its reply is written when it is done, in any order.
//! Taking and replying are copies in memory and never wait, so they are plain system calls and not
//! entries on the ring. (Reads of `/dev/fuse` on the ring were considered: several at once wake
//! each other for nothing, and a single one is a poll and a read just the same.) When too much is
//! under way, or there is no memory for the next request, the task stops taking; the kernel's own queue
//! holds the rest.
//!
//! Where the kernel offers FUSE over io_uring (off unless an administrator switches it on) and the handler wishes it, requests
//! come in entries on the ring and are answered there, many by one system call (`entries.rs`): a third to a half of what
//! the transport costs is saved. What a handler sees is the same.
//!
//! Left out on purpose: splice (it costs more than it saves at 4 KiB), interrupts (a device's request
//! is driven to its end anyway).
//!
//! # What must not happen
//!
//! The thread that serves must never wait for what it serves. So it never touches the mounted files,
//! and everything that does (making a loop device flushes the file, clearing one writes back its
//! page cache) runs on a helper thread ([`forebay_os::isolated`]); and what is told to the kernel unasked, which may wait for pages
//! that are being read or written, is told by one (`notify.rs`).
//!
//! And when the process is killed, the connection must close, even while such a helper waits for a
//! reply. So the helper gives up its hold on `/dev/fuse`, and so does the ring (`channel.rs`).
//!
//! Reading order: `handler.rs`, `request.rs`, `session.rs`; then `channel.rs`, `inbox.rs`, `entries.rs`,
//! `notify.rs`, and `mounted.rs` for the ends.

mod channel;
mod entries;
mod entry;
mod handler;
mod inbox;
mod mounted;
mod notify;
mod request;
mod session;

pub use forebay_os::FuseMount as Mount;
pub use handler::{Handler, Wishes};
pub use mounted::{Mounted, Over, UnmountError};
pub use notify::Stale;
pub use request::{Arrival, Underway};
pub use session::Ended;

use crate::requests::PART_BYTES;

/// The largest read and write, in bytes.
pub const IO_BYTES_MAX: usize = PART_BYTES;
