//! Waking of the ring's thread by other threads.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_rt::Unpark;
use rustix::event::{EventfdFlags, eventfd};

/// An eventfd that is read on the ring, and written only while the ring's thread waits.
///
/// Each side stores its own flag, `rung` or `waiting`, before it reads the other's. So either the waiting thread sees
/// `rung` before it waits, or the waking thread sees `waiting` and writes to the eventfd. A wake from the ring's own
/// thread finds no waiting thread and costs no system call.
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

    /// Announces a wait. Returns false if the doorbell was already rung, so that the thread must not wait.
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

    /// Clears earlier rings, which the ending turn has answered.
    pub(super) fn clear(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }
}

impl Unpark for Doorbell {
    fn unpark(&self) {
        self.rung.store(true, Ordering::SeqCst);
        if self.waiting.swap(false, Ordering::SeqCst) {
            // The write only fails when the counter is full, and then the reader has already been notified.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }
}
