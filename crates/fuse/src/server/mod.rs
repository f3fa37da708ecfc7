//! A FUSE server: passes the kernel's requests to a mounted filesystem on to a `FuseHandler`.
//!
//! # Reasons for an own implementation of the protocol
//!
//! The `fuser` crate was tried first. Its session owns a thread, so each request crossed to the volume's executor and
//! its reply was sent from there. The cost was measured with a server that only copies memory: 4 KiB at depth 32,
//! through a loop device, on two cores. The crossing alone cost a tenth to a quarter of the requests per second, before
//! the volume's own work. Reading `/dev/fuse` on the executor's thread cost nothing measurable
//! (`crates/loopdev/examples/compare.sh` repeats the measurement). The own implementation also saves a copy: the data of a large write is read from the
//! kernel straight into an aligned buffer that is passed down the stack, while a library has to lend its own buffer.
//!
//! The message formats are in [`codec`](crate::codec).
//!
//! # Flow of requests
//!
//! ```text
//!  /dev/fuse ─▶ channel ─▶ inbox ─▶ session ─▶ Handler: answers an Arrival at once,
//!      ▲                                          │     or begins it
//!      └──────── channel ◀──────────────────── Underway
//! ```
//!
//! One task waits until `/dev/fuse` is readable, and receives requests until the queue is empty. Each request that is
//! begun runs at once as far as possible, and becomes a task of its own only if it must wait. Replies are written on
//! completion, in any order. Receiving and replying are copies in memory and never wait, so they are plain system calls
//! and not entries on the ring. (Reads of `/dev/fuse` on the ring were considered: several concurrent reads wake each
//! other needlessly, and a single read costs a poll and a read just the same.) When too many requests are under way, or
//! memory for the next request is lacking, the task stops receiving; the kernel's own queue holds the rest.
//!
//! If the kernel offers FUSE over io_uring (off unless an administrator switches it on) and the handler requests it,
//! requests come in entries on the ring. They are answered there, many by one system call (`entries.rs`), which saves a
//! third to a half of the transport's cost. The handler sees no difference.
//!
//! Left out on purpose: splice (it costs more than it saves at 4 KiB), interrupts (a device's request is driven to its
//! end anyway).
//!
//! # Deadlocks to avoid
//!
//! The serving thread must never wait for the files that it serves. So it never accesses the mounted files. All
//! operations that do (configuring a loop device flushes the file, clearing a loop device writes back its page cache)
//! run on a helper thread ([`forebay_linux::isolated`]). Unsolicited notifications to the kernel, which may wait for pages
//! that are being read or written, are also sent by a helper thread (`notify.rs`).
//!
//! When the process is killed, the connection must close, even while a helper thread waits for a reply. So neither the
//! helper threads nor the ring hold `/dev/fuse` open (`channel.rs`).
//!
//! Reading order: `handler.rs`, `request.rs`, `session.rs`; then `channel.rs`, `inbox.rs`, `entries.rs`, `notify.rs`,
//! and `mounted.rs` for the start and end of a mount.

mod channel;
mod entries;
mod entry;
mod handler;
mod inbox;
mod mounted;
mod notify;
mod request;
mod session;

pub use handler::{FuseHandler, InitOptions};
pub use mounted::{ServedMount, SessionEndEvent, UnmountError};
pub use notify::StaleCache;
pub use request::{ActiveRequest, IncomingRequest};
pub use session::SessionEnd;

use forebay_frontend::requests::PART_BYTES;

/// The largest read and write, in bytes.
pub const IO_BYTES_MAX: usize = PART_BYTES;
