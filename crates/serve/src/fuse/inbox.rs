//! What requests are received into.

use std::io;

use forebay_device::{Buf, BufMut};
use forebay_rt::{Account, Lease};

use super::IO_BYTES_MAX;
use super::channel::{Channel, Received};
use crate::requests::{FRONT_RESERVE, Memory};
use forebay_fuse::{FIXED, HEADER};

/// A write's data is copied out of the buffer that requests are received into if it is at most this
/// long; what is longer takes the buffer with it.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// A buffer for one message, and the account that memory for requests is leased from.
pub(super) struct Inbox {
    memory: Memory,
    account: Account,
    pub(super) fixed: [u8; FIXED],
    /// Of the largest size.
    rest: BufMut,
    lease: Lease,
}

impl Inbox {
    /// # Errors
    /// If all of the memory is promised to others.
    pub(super) async fn new(memory: &Memory) -> io::Result<Inbox> {
        let promised = "the memory for requests is promised to others";
        let account = memory.account(FRONT_RESERVE);
        let account = account.ok_or_else(|| io::Error::other(promised))?;
        Ok(Inbox {
            lease: account.lease(Memory::cost(IO_BYTES_MAX)).await,
            rest: memory.take(IO_BYTES_MAX),
            fixed: [0; FIXED],
            memory: memory.clone(),
            account,
        })
    }

    /// Takes the next message, if there is one.
    pub(super) fn receive(&mut self, channel: &Channel) -> io::Result<Received> {
        channel.receive(&mut self.fixed, &mut self.rest)
    }

    /// What lies behind the header of a message of `total` bytes, in its two pieces.
    pub(super) fn body(&self, total: usize) -> [&[u8]; 2] {
        let front = &self.fixed[HEADER..total.clamp(HEADER, FIXED)];
        [front, &self.rest[..total.saturating_sub(FIXED)]]
    }

    /// Waits for memory for `len` bytes.
    pub(super) async fn lease(&self, len: usize) -> Lease {
        self.account.lease(Memory::cost(len)).await
    }

    /// The first `len` bytes of a write's data, with their lease. A small part is copied, since it
    /// would keep the whole buffer from use (and was just written by this processor, so the copy is
    /// cheap); a large one is handed over, and another buffer takes its place.
    pub(super) async fn data(&mut self, len: usize) -> (Buf, Lease) {
        if len <= COPIED_BYTES_MAX {
            let lease = self.lease(len).await;
            let mut part = self.memory.take(len);
            part.copy_from_slice(&self.rest[..len]);
            return (part.freeze(), lease);
        }
        let lease = self.lease(IO_BYTES_MAX).await;
        let fresh = self.memory.take(IO_BYTES_MAX);
        let mut part = std::mem::replace(&mut self.rest, fresh);
        part.truncate(len);
        (part.freeze(), std::mem::replace(&mut self.lease, lease))
    }
}
