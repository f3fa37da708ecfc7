//! What a request needs to stay alive, and where it stands.
#![allow(
    unsafe_code,
    reason = "takes over file descriptors that the kernel returns as numbers"
)]

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::Waker;

use forebay_device::{Buf, BufMut};
use rustix::net::SocketAddrAny;

use super::Fd;
use super::reports::Reports;

/// What the kernel may read or write until a request completes. All of it lives on the heap, so it
/// stays in place when a `Hold` is moved.
pub(crate) enum Hold {
    Nothing,
    /// The result is a new file descriptor, to be closed if nobody takes it.
    NewFd,
    Filled(BufMut),
    Read(Buf),
    Message(Box<Message>),
    /// An entry for FUSE's requests, which is with the driver. All of them are told of in one place.
    Entry(Rc<Reports>, usize),
    Address(#[expect(dead_code, reason = "only the kernel reads it")] Box<SocketAddrAny>),
}

/// Several buffers to send as one.
pub(crate) struct Message {
    /// Owns what `parts` points to.
    pub(super) _bufs: Vec<Buf>,
    pub(super) parts: Vec<libc::iovec>,
    /// Parts at the front that are sent.
    pub(super) sent_parts: usize,
    pub(super) header: libc::msghdr,
}

pub(super) enum State {
    Pending(Option<Waker>),
    Done(i32),
    /// There is no future: what it holds is told.
    Told,
    /// The future is gone; the slot is freed when the completion comes.
    Orphaned,
}

pub(super) struct Slot {
    pub(super) state: State,
    pub(super) hold: Hold,
    /// So that the number cannot come to mean another file while the request is queued.
    pub(super) _fd: Fd,
    /// It uses no memory, and ends with the ring at the latest: nobody has to wait for it.
    pub(super) stays: bool,
}

impl Slot {
    /// Notes the result, and returns the state before.
    pub(super) fn complete(&mut self, result: i32) -> State {
        std::mem::replace(&mut self.state, State::Done(result))
    }

    /// Tells of a finished request, and returns whom to wake.
    pub(super) fn tell(self) -> Option<Waker> {
        match (self.state, self.hold) {
            (State::Done(result), Hold::Entry(reports, entry)) => reports.put(entry, result),
            _ => None,
        }
    }

    /// Lets go of a finished request whose result nobody wants.
    pub(super) fn discard(self) {
        if let (State::Done(fd), Hold::NewFd) = (self.state, self.hold)
            && fd >= 0
        {
            drop(new_fd(fd));
        }
    }
}

/// The file descriptor the kernel made for a request that was held as [`Hold::NewFd`].
pub(super) fn new_fd(fd: RawFd) -> OwnedFd {
    // SAFETY: the number comes from the completion of an accept, which made it for us alone; the
    // completion is looked at once.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
