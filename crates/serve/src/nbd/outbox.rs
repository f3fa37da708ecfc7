//! Sending: replies gather here while a transfer is under way, and the next takes them all.

use std::cell::RefCell;

use forebay_device::{Buf, BufMut};
use forebay_rt::{Event, Lease};

use crate::requests::{Load, Memory, PART_BYTES};

/// Bytes of the buffers that headers are gathered in.
const HEADERS_BYTES: usize = 16 << 10;
/// What such buffers hold while a connection lasts. Its requests under way have headers for two.
pub(super) const HEADERS_COST: u64 = 4 * Memory::cost(HEADERS_BYTES);
/// What replying gets on with: the headers, and part of a read.
pub(super) const RESERVE: u64 = HEADERS_COST + Memory::cost(PART_BYTES);

/// Pieces in one transfer, well below what `sendmsg` takes.
const PIECES_MAX: usize = 512;

/// What is sent in one transfer. The leases are given back after it, with the data.
#[derive(Default)]
pub(super) struct Replies {
    pub(super) pieces: Vec<Buf>,
    pub(super) leases: Vec<Lease>,
    /// Requests that are over once this is sent.
    pub(super) settled: Load,
}

#[derive(Default)]
struct Queue {
    pieces: Vec<Buf>,
    /// For the data in `pieces`.
    leases: Vec<Lease>,
    /// The first `used` bytes are headers that belong behind `pieces`.
    headers: Option<BufMut>,
    used: usize,
    settled: Load,
}

pub(super) struct Outbox {
    queue: RefCell<Queue>,
    memory: Memory,
    /// Something was put in.
    pub(super) filled: Event,
}

impl Outbox {
    pub(super) fn new(memory: Memory) -> Outbox {
        Outbox {
            queue: RefCell::default(),
            memory,
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
            queue.headers = Some(self.memory.take(HEADERS_BYTES));
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

    /// Keeps the lease of data that was put until the data is sent.
    pub(super) fn keep(&self, lease: Lease) {
        self.queue.borrow_mut().leases.push(lease);
    }

    /// Says that what was put last completes the reply of a request that came to `load`.
    pub(super) fn settle(&self, load: Load) {
        self.queue.borrow_mut().settled.add(load);
        self.filled.notify_all();
    }

    /// All that is there, or as much of it as fits a transfer; nothing if there is nothing.
    ///
    /// Where not all fits, the requests count as settled with the last part.
    pub(super) fn take(&self) -> Replies {
        let mut queue = self.queue.borrow_mut();
        queue.seal();
        if queue.pieces.len() > PIECES_MAX {
            let rest = queue.pieces.split_off(PIECES_MAX);
            return Replies {
                pieces: std::mem::replace(&mut queue.pieces, rest),
                ..Replies::default()
            };
        }
        Replies {
            pieces: std::mem::take(&mut queue.pieces),
            leases: std::mem::take(&mut queue.leases),
            settled: std::mem::take(&mut queue.settled),
        }
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
