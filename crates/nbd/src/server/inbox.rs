//! Receiving: one large buffer per connection, many requests per transfer, payloads without a copy.
//!
//! Received bytes are appended to those already in the buffer. Bytes taken off the front are a slice of the buffer, and
//! keep the buffer alive. When the buffer is full, a fresh buffer from the pool replaces it, and only the beginning of
//! an incomplete request is copied. A payload that is large in relation to the buffer is received straight into its own
//! memory, which is aligned for direct I/O.
//!
//! A small write that waits for its device keeps the whole buffer it arrived in. So the leases on the daemon's memory
//! are for whole buffers, and a lease ends with the last payload in its buffer. Before the inbox takes another buffer,
//! or memory for a large payload, it waits for the lease and receives nothing.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut};
use forebay_frontend::requests::{PART_BYTES, RequestMemory};
use forebay_rt::{BudgetAccount, BudgetLease, Rt};

use super::hangup::HangupReason;
use super::wire::NbdWire;

/// Bytes of a receive buffer: several dozen 4 KiB writes.
pub(super) const BUFFER_BYTES: usize = 256 << 10;
/// A transfer does not start with less free space than this, so that a nearly full buffer does not cause small
/// transfers.
const ROOM_BYTES_MIN: usize = 32 << 10;
/// Bytes received after a large payload, for the header of the next request. The next payload is probably large too,
/// and any part of it received here would have to be copied.
const AFTER_LARGE_BYTES: usize = 4 << 10;
/// Payloads from this size on get their own memory. Smaller payloads, which may have to be copied once, must fit a
/// buffer.
const DIRECT_BYTES: usize = 128 << 10;

/// The memory that receiving needs to make progress: a buffer, its replacement, and part of a payload.
pub(super) const RESERVE: u64 =
    2 * RequestMemory::cost(BUFFER_BYTES) + RequestMemory::cost(PART_BYTES);

/// The payload of a write, and its lease on the daemon's memory.
pub(super) struct WritePayload {
    pub(super) data: Buf,
    /// Lease shared by all payloads in one buffer.
    pub(super) lease: Option<Rc<BudgetLease>>,
}

pub(super) struct NbdInbox {
    rt: Rt,
    wire: Rc<dyn NbdWire>,
    memory: RequestMemory,
    account: BudgetAccount,
    /// The first `filled` bytes are received and not yet taken; the rest is free. `None` while a transfer owns the
    /// buffer.
    buf: Option<BufMut>,
    /// Lease for the whole of `buf`, including the bytes taken off its front.
    lease: Option<Rc<BudgetLease>>,
    filled: usize,
    /// The last payload was large.
    after_large: bool,
    stall: Duration,
}

impl NbdInbox {
    /// Creates an empty inbox. `account` has [`RESERVE`].
    pub(super) fn new(
        rt: Rt,
        wire: Rc<dyn NbdWire>,
        memory: RequestMemory,
        account: BudgetAccount,
        stall: Duration,
    ) -> NbdInbox {
        NbdInbox {
            rt,
            wire,
            memory,
            account,
            buf: None,
            lease: None,
            filled: 0,
            after_large: false,
            stall,
        }
    }

    /// Returns the bytes that are received and not yet taken.
    pub(super) fn received(&self) -> &[u8] {
        self.buf.as_ref().map_or(&[], |buf| &buf[..self.filled])
    }

    /// Waits, without a time limit, until a byte is received.
    pub(super) async fn wait(&mut self) -> Result<(), HangupReason> {
        if self.filled == 0 {
            self.receive(1, None).await?;
        }
        Ok(())
    }

    /// Waits until `n` bytes are received. Returns an error if the peer sends nothing for longer than the stall time.
    ///
    /// `n` is at most half a buffer.
    pub(super) async fn need(&mut self, n: usize) -> Result<(), HangupReason> {
        debug_assert!(n <= BUFFER_BYTES / 2);
        while self.filled < n {
            self.receive(n, Some(self.stall)).await?;
        }
        Ok(())
    }

    /// Takes `n` bytes that are already received.
    pub(super) fn take(&mut self, n: usize) -> BufMut {
        assert!(n <= self.filled, "taking {n} of {} bytes", self.filled);
        self.filled -= n;
        match &mut self.buf {
            Some(buf) => buf.split_to(n),
            None => BufMut::zeroed(0),
        }
    }

    /// Receives the next `len` bytes, at most [`PART_BYTES`]: a small payload as a slice of the buffer, a large payload
    /// into its own memory.
    pub(super) async fn payload(&mut self, len: usize) -> Result<WritePayload, HangupReason> {
        if len < DIRECT_BYTES {
            self.need(len).await?;
            return Ok(WritePayload {
                data: self.take(len).freeze(),
                lease: self.lease.clone(),
            });
        }
        self.after_large = true;
        let lease = self.account.lease(RequestMemory::cost(len)).await;
        let mut whole = self.memory.take(len);
        let n = self.filled.min(len);
        let mut filled = whole.split_to(n);
        filled.copy_from_slice(&self.take(n));
        while !whole.is_empty() {
            let (mut buf, n) = self.transfer(whole, Some(self.stall)).await?;
            filled = join(filled, buf.split_to(n));
            whole = buf;
        }
        Ok(WritePayload {
            data: filled.freeze(),
            lease: Some(Rc::new(lease)),
        })
    }

    /// Receives and drops the next `len` bytes.
    pub(super) async fn skip(&mut self, mut len: u64) -> Result<(), HangupReason> {
        while len > 0 {
            self.need(1).await?;
            let n = usize::try_from(len).map_or(self.filled, |len| len.min(self.filled));
            drop(self.take(n));
            len -= n as u64;
        }
        Ok(())
    }

    /// Does one transfer into the buffer, which afterwards has a capacity of at least `want` bytes in all.
    async fn receive(&mut self, want: usize, limit: Option<Duration>) -> Result<(), HangupReason> {
        let mut buf = match self.buf.take() {
            Some(buf) if buf.len() >= want.max(self.filled + ROOM_BYTES_MIN) => buf,
            old => self.take_over(old).await,
        };
        let front = buf.split_to(self.filled);
        let after_large = std::mem::replace(&mut self.after_large, false);
        let room = if after_large && want <= self.filled + AFTER_LARGE_BYTES {
            AFTER_LARGE_BYTES
        } else {
            buf.len()
        };
        let (room, n) = self.transfer(buf.split_to(room), limit).await?;
        self.buf = Some(join(join(front, room), buf));
        self.filled += n;
        Ok(())
    }

    /// Returns a fresh buffer that begins with the untaken bytes of `old`.
    async fn take_over(&mut self, old: Option<BufMut>) -> BufMut {
        let old = old.filter(|_| self.filled > 0);
        if old.is_none() {
            self.lease = None;
        }
        let lease = self.account.lease(RequestMemory::cost(BUFFER_BYTES)).await;
        let mut fresh = self.memory.take(BUFFER_BYTES);
        if let Some(old) = old {
            fresh[..self.filled].copy_from_slice(&old[..self.filled]);
        }
        self.lease = Some(Rc::new(lease));
        fresh
    }

    async fn transfer(
        &self,
        buf: BufMut,
        limit: Option<Duration>,
    ) -> Result<(BufMut, usize), HangupReason> {
        let transfer = self.wire.recv(buf);
        let outcome = match limit {
            None => transfer.await,
            Some(limit) => match self.rt.timeout(limit, transfer).await {
                Ok(outcome) => outcome,
                Err(_) => return Err(HangupReason::Stalled),
            },
        };
        match outcome.map_err(HangupReason::Wire)? {
            (_, 0) => Err(HangupReason::Gone),
            received => Ok(received),
        }
    }
}

fn join(front: BufMut, back: BufMut) -> BufMut {
    front
        .unsplit(back)
        .expect("both were split from one buffer at this place")
}
