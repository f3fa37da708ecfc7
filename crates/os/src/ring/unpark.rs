//! How other threads interrupt the ring's wait.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_rt::Unpark;
use rustix::event::{EventfdFlags, eventfd};

/// An eventfd that is read on the ring, and rung only when somebody waits.
///
/// `rung` and `waiting` are each stored by one side before it looks at the other's, so either the
/// waiter sees the ring before it waits, or the ringer sees the waiter and writes to the eventfd.
/// A wake from the ring's own thread finds nobody waiting and costs no system call.
pub(super) struct Doorbell {
    fd: OwnedFd,
    rung: AtomicBool,
    waiting: AtomicBool,
}

impl Doorbell {
    pub(super) fn new() -> io::Result<Doorbell> {
        Ok(Doorbell {
            fd: eventfd(0, EventfdFlags::CLOEXEC)?,
            rung: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
        })
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Announces a wait; false if it was rung already and there must be none.
    pub(super) fn begin_wait(&self) -> bool {
        self.waiting.store(true, Ordering::SeqCst);
        !self.rung.load(Ordering::SeqCst)
    }

    /// Returns true if it was rung since it was last cleared.
    pub(super) fn is_rung(&self) -> bool {
        self.rung.load(Ordering::SeqCst)
    }

    pub(super) fn end_wait(&self) {
        self.waiting.store(false, Ordering::SeqCst);
    }

    /// Forgets earlier rings, which the turn that now ends has answered.
    pub(super) fn clear(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }
}

impl Unpark for Doorbell {
    fn unpark(&self) {
        self.rung.store(true, Ordering::SeqCst);
        if self.waiting.swap(false, Ordering::SeqCst) {
            // It can only fail when the counter is full, and then the reader has been told.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }
}
