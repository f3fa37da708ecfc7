//! State of a request, and the memory that must live as long as the request.
#![allow(
    unsafe_code,
    reason = "takes over file descriptors that the kernel returns as numbers"
)]

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::Waker;

use forebay_device::{Buf, BufMut};
use rustix::net::SocketAddrAny;

use super::SharedFd;
use super::reports::FuseEntryTable;

/// Memory that the kernel may read or write until a request completes. All of it is on the heap, so it stays in place
/// when a `HeldMemory` is moved.
pub(crate) enum HeldMemory {
    Nothing,
    /// The result is a new file descriptor, which must be closed if it is not taken.
    NewFd,
    Filled(BufMut),
    Read(Buf),
    Message(Box<SocketMessage>),
    /// An entry for FUSE requests, which is with the driver. The results of all such entries go to one queue.
    Entry(Rc<FuseEntryTable>, usize),
    Address(#[expect(dead_code, reason = "only the kernel reads it")] Box<SocketAddrAny>),
}

/// Several buffers to send as one message.
pub(crate) struct SocketMessage {
    /// Owns the memory that `parts` points to.
    pub(super) _bufs: Vec<Buf>,
    pub(super) parts: Vec<libc::iovec>,
    /// Number of parts at the front that are sent.
    pub(super) sent_parts: usize,
    pub(super) header: libc::msghdr,
}

pub(super) enum UringSlotState {
    Pending(Option<Waker>),
    Done(i32),
    /// The request has no future: its result goes to the held reports.
    Told,
    /// The future is gone; the slot is freed when the completion comes.
    Orphaned,
}

pub(super) struct UringSlot {
    pub(super) state: UringSlotState,
    pub(super) hold: HeldMemory,
    /// Keeps the descriptor open, so that its number cannot refer to another file while the request is queued.
    pub(super) _fd: SharedFd,
    /// True if the request uses no memory and ends with the ring, so that the ring does not wait for it.
    pub(super) stays: bool,
}

impl UringSlot {
    /// Records the result, and returns the previous state.
    pub(super) fn complete(&mut self, result: i32) -> UringSlotState {
        std::mem::replace(&mut self.state, UringSlotState::Done(result))
    }

    /// Passes on the result of a finished request, and returns the waker of the waiting task.
    pub(super) fn tell(self) -> Option<Waker> {
        match (self.state, self.hold) {
            (UringSlotState::Done(result), HeldMemory::Entry(reports, entry)) => {
                reports.put(entry, result)
            }
            _ => None,
        }
    }

    /// Releases a finished request whose result is not needed.
    pub(super) fn discard(self) {
        if let (UringSlotState::Done(fd), HeldMemory::NewFd) = (self.state, self.hold)
            && fd >= 0
        {
            drop(new_fd(fd));
        }
    }
}

/// Returns the file descriptor that the kernel created for a request that was held as [`HeldMemory::NewFd`].
pub(super) fn new_fd(fd: RawFd) -> OwnedFd {
    // SAFETY: the number comes from the completion of an accept, which created it only for us. The completion is read
    // only once.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
