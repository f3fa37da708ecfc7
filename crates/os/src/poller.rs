//! Polling of descriptors that are read and written by other means.

use std::io;
use std::rc::Rc;

use crate::{Fd, Ring};

/// Waits for a descriptor to become ready. Intended for descriptors that are read and written by other means.
pub struct Poller {
    ring: Rc<Ring>,
    fd: Fd,
}

impl Poller {
    /// Creates a poller of `fd` on `ring`.
    pub fn new(ring: &Rc<Ring>, fd: Fd) -> Poller {
        Poller {
            ring: Rc::clone(ring),
            fd,
        }
    }

    /// Returns the descriptor.
    pub fn fd(&self) -> &Fd {
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
