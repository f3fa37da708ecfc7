//! Receiving: one large buffer per connection, many requests per transfer, payloads without a copy.
//!
//! Bytes are received behind those that are already there. What is taken off the front is a slice of
//! the buffer and lives as long as somebody holds it; when room runs out, a fresh buffer from the
//! pool takes over, and only the beginning of an incomplete request is copied into it. A payload
//! that is large beside the buffer is received straight into memory of its own, which is aligned for
//! direct I/O.
//!
//! A small write that waits for its device keeps the whole buffer it came in, so what a connection
//! can hold is its requests in flight times the buffer's size, at worst.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut, BufPool};
use forebay_rt::Rt;

use super::pools::{PART_BYTES, Pools};
use super::{Hangup, Wire};

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

pub(super) struct Inbox {
    rt: Rt,
    wire: Rc<dyn Wire>,
    buffers: BufPool,
    pools: Rc<Pools>,
    /// The first `filled` bytes are received and not yet taken; the rest is room. `None` while a
    /// transfer has it.
    buf: Option<BufMut>,
    filled: usize,
    /// The last payload was large.
    after_large: bool,
    stall: Duration,
}

impl Inbox {
    pub(super) fn new(rt: Rt, wire: Rc<dyn Wire>, stall: Duration) -> Inbox {
        Inbox {
            rt,
            wire,
            buffers: BufPool::new(BUFFER_BYTES),
            pools: Rc::new(Pools::new()),
            buf: None,
            filled: 0,
            after_large: false,
            stall,
        }
    }

    /// Where memory for large payloads comes from, for the connection's other needs.
    pub(super) fn pools(&self) -> Rc<Pools> {
        Rc::clone(&self.pools)
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

    /// Takes the next `len` bytes, the payload of a write, in parts of [`PART_BYTES`] (the last may
    /// be shorter).
    pub(super) async fn payload(&mut self, len: usize) -> Result<Vec<Buf>, Hangup> {
        self.after_large = true;
        let mut parts = Vec::with_capacity(len.div_ceil(PART_BYTES));
        let mut left = len;
        while left > 0 {
            let n = left.min(PART_BYTES);
            parts.push(self.piece(n).await?);
            left -= n;
        }
        Ok(parts)
    }

    /// True if the next `len` bytes come as a slice of the buffer, once `need` had them.
    pub(super) fn is_small(len: usize) -> bool {
        len < DIRECT_BYTES
    }

    async fn piece(&mut self, len: usize) -> Result<Buf, Hangup> {
        if Inbox::is_small(len) {
            self.need(len).await?;
            return Ok(self.take(len).freeze());
        }
        let mut whole = self.pools.take(len);
        let n = self.filled.min(len);
        let mut filled = whole.split_to(n);
        filled.copy_from_slice(&self.take(n));
        while !whole.is_empty() {
            let (mut buf, n) = self.transfer(whole, Some(self.stall)).await?;
            filled = join(filled, buf.split_to(n));
            whole = buf;
        }
        Ok(filled.freeze())
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
            old => {
                let mut fresh = self.buffers.take();
                if let Some(old) = old {
                    fresh[..self.filled].copy_from_slice(&old[..self.filled]);
                }
                fresh
            }
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
