//! Receiving: one large buffer per connection, many requests per transfer, payloads without a copy.
//!
//! Bytes are received behind those that are already there. What is taken off the front is a slice of
//! the buffer and lives as long as somebody holds it; when room runs out, a fresh buffer from the
//! pool takes over, and only the beginning of an incomplete request is copied into it. A payload
//! that is large beside the buffer is received straight into memory of its own, which is aligned for
//! direct I/O.
//!
//! A small write that waits for its device keeps the whole buffer it came in. So what is leased of
//! the daemon's memory is whole buffers, and given back with the last payload in them; before one
//! more is taken, or memory for a large payload, its lease is waited for, and nothing is received.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut};
use forebay_rt::{Account, Lease, Rt};

use super::hangup::Hangup;
use super::wire::Wire;
use crate::requests::{Memory, PART_BYTES};

/// Bytes of a receive buffer: several dozen 4 KiB writes.
pub(super) const BUFFER_BYTES: usize = 256 << 10;
/// A transfer is not started for less room than this, so that a nearly full buffer does not make
/// for small ones.
const ROOM_BYTES_MIN: usize = 32 << 10;
/// What is received for the next request's header after a large payload. The next payload is
/// probably large too, and what of it came in here would have to be copied.
const AFTER_LARGE_BYTES: usize = 4 << 10;
/// Payloads from this size on get memory of their own. The rest, which may have to be copied once,
/// must fit a buffer.
const DIRECT_BYTES: usize = 128 << 10;

/// What receiving gets on with: a buffer, another that takes over from it, and part of a payload.
pub(super) const RESERVE: u64 = 2 * Memory::cost(BUFFER_BYTES) + Memory::cost(PART_BYTES);

/// Bytes of a write, and what they hold of the daemon's memory until they are dropped.
pub(super) struct Received {
    pub(super) data: Buf,
    /// Of all that is in the same buffer.
    pub(super) lease: Option<Rc<Lease>>,
}

pub(super) struct Inbox {
    rt: Rt,
    wire: Rc<dyn Wire>,
    memory: Memory,
    account: Account,
    /// The first `filled` bytes are received and not yet taken; the rest is room. `None` while a
    /// transfer has it.
    buf: Option<BufMut>,
    /// For the whole of `buf`, with what was taken off its front.
    lease: Option<Rc<Lease>>,
    filled: usize,
    /// The last payload was large.
    after_large: bool,
    stall: Duration,
}

impl Inbox {
    /// `account` has [`RESERVE`].
    pub(super) fn new(
        rt: Rt,
        wire: Rc<dyn Wire>,
        memory: Memory,
        account: Account,
        stall: Duration,
    ) -> Inbox {
        Inbox {
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

    /// What is received and not yet taken.
    pub(super) fn received(&self) -> &[u8] {
        self.buf.as_ref().map_or(&[], |buf| &buf[..self.filled])
    }

    /// Waits, for ever if need be, until something is there.
    pub(super) async fn wait(&mut self) -> Result<(), Hangup> {
        if self.filled == 0 {
            self.receive(1, None).await?;
        }
        Ok(())
    }

    /// Waits until `n` bytes are there. A peer that sends nothing for too long is given up.
    ///
    /// `n` is at most half a buffer.
    pub(super) async fn need(&mut self, n: usize) -> Result<(), Hangup> {
        debug_assert!(n <= BUFFER_BYTES / 2);
        while self.filled < n {
            self.receive(n, Some(self.stall)).await?;
        }
        Ok(())
    }

    /// Takes `n` bytes that are there.
    pub(super) fn take(&mut self, n: usize) -> BufMut {
        assert!(n <= self.filled, "taking {n} of {} bytes", self.filled);
        self.filled -= n;
        match &mut self.buf {
            Some(buf) => buf.split_to(n),
            None => BufMut::zeroed(0),
        }
    }

    /// Receives the next `len` bytes, at most [`PART_BYTES`]: a small payload as a slice of the buffer,
    /// a large one into memory of its own.
    pub(super) async fn payload(&mut self, len: usize) -> Result<Received, Hangup> {
        if len < DIRECT_BYTES {
            self.need(len).await?;
            return Ok(Received {
                data: self.take(len).freeze(),
                lease: self.lease.clone(),
            });
        }
        self.after_large = true;
        let lease = self.account.lease(Memory::cost(len)).await;
        let mut whole = self.memory.take(len);
        let n = self.filled.min(len);
        let mut filled = whole.split_to(n);
        filled.copy_from_slice(&self.take(n));
        while !whole.is_empty() {
            let (mut buf, n) = self.transfer(whole, Some(self.stall)).await?;
            filled = join(filled, buf.split_to(n));
            whole = buf;
        }
        Ok(Received {
            data: filled.freeze(),
            lease: Some(Rc::new(lease)),
        })
    }

    /// Throws the next `len` bytes away.
    pub(super) async fn skip(&mut self, mut len: u64) -> Result<(), Hangup> {
        while len > 0 {
            self.need(1).await?;
            let n = usize::try_from(len).map_or(self.filled, |len| len.min(self.filled));
            drop(self.take(n));
            len -= n as u64;
        }
        Ok(())
    }

    /// One transfer into the buffer, which has room for `want` bytes in all.
    async fn receive(&mut self, want: usize, limit: Option<Duration>) -> Result<(), Hangup> {
        let mut buf = match self.buf.take() {
            Some(buf) if buf.len() >= want.max(self.filled + ROOM_BYTES_MIN) => buf,
            old => self.take_over(old).await,
        };
        let front = buf.split_to(self.filled);
        let after_large = std::mem::replace(&mut self.after_large, false);
        let room = match after_large && want <= self.filled + AFTER_LARGE_BYTES {
            true => AFTER_LARGE_BYTES,
            false => buf.len(),
        };
        let (room, n) = self.transfer(buf.split_to(room), limit).await?;
        self.buf = Some(join(join(front, room), buf));
        self.filled += n;
        Ok(())
    }

    /// A fresh buffer that begins with what was received and not taken from `old`.
    async fn take_over(&mut self, old: Option<BufMut>) -> BufMut {
        let old = old.filter(|_| self.filled > 0);
        if old.is_none() {
            self.lease = None;
        }
        let lease = self.account.lease(Memory::cost(BUFFER_BYTES)).await;
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
    ) -> Result<(BufMut, usize), Hangup> {
        let transfer = self.wire.recv(buf);
        let outcome = match limit {
            None => transfer.await,
            Some(limit) => match self.rt.timeout(limit, transfer).await {
                Ok(outcome) => outcome,
                Err(_) => return Err(Hangup::Stalled),
            },
        };
        match outcome.map_err(Hangup::Wire)? {
            (_, 0) => Err(Hangup::Gone),
            received => Ok(received),
        }
    }
}

fn join(front: BufMut, back: BufMut) -> BufMut {
    front
        .unsplit(back)
        .expect("both were split from one buffer at this place")
}
