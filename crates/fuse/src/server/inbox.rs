//! The receive buffer of a FUSE connection.

use std::io;

use forebay_device::{Buf, BufMut};
use forebay_frontend::requests::{FRONT_RESERVE, RequestMemory};
use forebay_rt::{BudgetAccount, BudgetLease};

use super::IO_BYTES_MAX;
use super::channel::{FuseChannel, ReceiveOutcome};
use crate::codec::{FIXED, HEADER};

/// Data of a write up to this length is copied out of the receive buffer. Longer data keeps the buffer.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// A buffer for one message, and the account for the memory of requests.
pub(super) struct FuseInbox {
    memory: RequestMemory,
    account: BudgetAccount,
    fixed: [u8; FIXED],
    /// A buffer of the largest size.
    rest: BufMut,
    lease: BudgetLease,
}

impl FuseInbox {
    /// Creates an inbox with its receive buffer.
    ///
    /// # Errors
    /// If all of the memory is reserved by others.
    pub(super) async fn new(memory: &RequestMemory) -> io::Result<FuseInbox> {
        let promised = "the memory for requests is reserved for other clients";
        let account = memory.account(FRONT_RESERVE);
        let account = account.ok_or_else(|| io::Error::other(promised))?;
        Ok(FuseInbox {
            lease: account.lease(RequestMemory::cost(IO_BYTES_MAX)).await,
            rest: memory.take(IO_BYTES_MAX),
            fixed: [0; FIXED],
            memory: memory.clone(),
            account,
        })
    }

    /// Receives the next message, if any.
    pub(super) fn receive(&mut self, channel: &FuseChannel) -> io::Result<ReceiveOutcome> {
        channel.receive(&mut self.fixed, &mut self.rest)
    }

    /// Returns the header of a message of `total` bytes, and the two parts behind the header.
    pub(super) fn message(&self, total: usize) -> (&[u8], [&[u8]; 2]) {
        let fixed = &self.fixed[..total.min(FIXED)];
        let (header, front) = fixed.split_at(total.min(HEADER));
        (header, [front, &self.rest[..total.saturating_sub(FIXED)]])
    }

    /// Waits for memory for `len` bytes.
    pub(super) async fn lease(&self, len: usize) -> BudgetLease {
        self.account.lease(RequestMemory::cost(len)).await
    }

    /// Returns the first `len` bytes of a write's data, with their lease. Short data is copied: otherwise it would
    /// block the whole buffer, and the copy is cheap because this processor just wrote the data. Long data is returned
    /// in its buffer, and a new buffer replaces it.
    pub(super) async fn data(&mut self, len: usize) -> (Buf, BudgetLease) {
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
