//! Polling of descriptors that are read and written by other means.

use std::io;
use std::rc::Rc;

use crate::{IoRing, SharedFd};

/// Waits for a descriptor to become ready. Intended for descriptors that are read and written by other means.
pub struct FdPoller {
    ring: Rc<IoRing>,
    fd: SharedFd,
}

impl FdPoller {
    /// Creates a poller of `fd` on `ring`.
    pub fn new(ring: &Rc<IoRing>, fd: SharedFd) -> FdPoller {
        FdPoller {
            ring: Rc::clone(ring),
            fd,
        }
    }

    /// Returns the descriptor.
    pub fn fd(&self) -> &SharedFd {
        &self.fd
    }

    /// Waits until a read would not block because data, the end, or an error can be read.
    ///
    /// # Errors
    /// If the descriptor cannot be polled.
    pub async fn readable(&self) -> io::Result<()> {
        self.ring.poll(&self.fd, libc::POLLIN).await.map(drop)
    }

    /// Waits until a write would not block.
    ///
    /// # Errors
    /// If the descriptor cannot be polled.
    pub async fn writable(&self) -> io::Result<()> {
        self.ring.poll(&self.fd, libc::POLLOUT).await.map(drop)
    }
}
