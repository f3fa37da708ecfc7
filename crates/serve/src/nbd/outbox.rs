//! Sending: replies gather here while a transfer is under way, and the next takes them all.

use std::cell::RefCell;

use forebay_device::{Buf, BufMut, BufPool};
use forebay_rt::Event;

/// Bytes of the buffers that headers are gathered in.
const HEADERS_BYTES: usize = 16 << 10;
/// Pieces in one transfer, well below what `sendmsg` takes.
const PIECES_MAX: usize = 512;

/// Requests that are settled once their replies are sent, and what they cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Settled {
    pub(super) requests: u32,
    pub(super) bytes: u64,
}

impl Settled {
    fn add(&mut self, other: Settled) {
        self.requests += other.requests;
        self.bytes += other.bytes;
    }
}

#[derive(Default)]
struct Queue {
    pieces: Vec<Buf>,
    /// The first `used` bytes are headers that belong behind `pieces`.
    headers: Option<BufMut>,
    used: usize,
    settled: Settled,
}

pub(super) struct Outbox {
    queue: RefCell<Queue>,
    pool: BufPool,
    /// Something was put in.
    pub(super) filled: Event,
}

impl Outbox {
    pub(super) fn new() -> Outbox {
        Outbox {
            queue: RefCell::default(),
            pool: BufPool::new(HEADERS_BYTES),
            filled: Event::new(),
        }
    }

    /// Adds a header, at most [`HEADERS_BYTES`] long, and the data behind it.
    pub(super) fn put(&self, header: &[u8], data: impl IntoIterator<Item = Buf>) {
        let mut queue = self.queue.borrow_mut();
        let queue = &mut *queue;
        let room = queue.headers.as_ref().map_or(0, |buf| buf.len());
        if room < queue.used + header.len() {
            queue.seal();
            queue.headers = Some(self.pool.take());
        }
        if let Some(headers) = &mut queue.headers {
            headers[queue.used..queue.used + header.len()].copy_from_slice(header);
            queue.used += header.len();
        }
        for piece in data {
            queue.seal();
            queue.pieces.push(piece);
        }
    }

    /// Says that what was put last completes the reply of a request that cost `bytes`.
    pub(super) fn settle(&self, bytes: u64) {
        self.queue
            .borrow_mut()
            .settled
            .add(Settled { requests: 1, bytes });
        self.filled.notify_all();
    }

    /// All that is there, or as much of it as fits a transfer; nothing if there is nothing.
    ///
    /// Where not all fits, the requests count as settled with the last part.
    pub(super) fn take(&self) -> (Vec<Buf>, Settled) {
        let mut queue = self.queue.borrow_mut();
        queue.seal();
        if queue.pieces.len() > PIECES_MAX {
            let rest = queue.pieces.split_off(PIECES_MAX);
            let pieces = std::mem::replace(&mut queue.pieces, rest);
            return (pieces, Settled::default());
        }
        let pieces = std::mem::take(&mut queue.pieces);
        (pieces, std::mem::take(&mut queue.settled))
    }
}

impl Queue {
    fn seal(&mut self) {
        if let Some(headers) = &mut self.headers
            && self.used > 0
        {
            self.pieces.push(headers.split_to(self.used).freeze());
            self.used = 0;
        }
    }
}
