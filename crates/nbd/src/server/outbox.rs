//! Sending: replies gather during a transfer, and the next transfer sends all of them.

use std::cell::RefCell;

use forebay_device::{Buf, BufMut};
use forebay_frontend::requests::{PART_BYTES, RequestLoad, RequestMemory};
use forebay_rt::{BudgetLease, Event};

/// Bytes of a buffer that headers are gathered in.
const HEADERS_BYTES: usize = 16 << 10;
/// Bytes that such buffers hold during a connection. The requests under way have headers for two buffers.
pub(super) const HEADERS_COST: u64 = 4 * RequestMemory::cost(HEADERS_BYTES);
/// The memory that replying needs to make progress: the headers, and part of a read.
pub(super) const RESERVE: u64 = HEADERS_COST + RequestMemory::cost(PART_BYTES);

/// Limit on the buffers in one transfer, well below the limit of `sendmsg`.
const PIECES_MAX: usize = 512;

/// The content of one transfer. The leases are returned after the transfer, with the data.
#[derive(Default)]
pub(super) struct ReplyBatch {
    pub(super) pieces: Vec<Buf>,
    pub(super) leases: Vec<BudgetLease>,
    /// Requests that end with this transfer.
    pub(super) settled: RequestLoad,
}

#[derive(Default)]
struct ReplyQueue {
    pieces: Vec<Buf>,
    /// Leases of the data in `pieces`.
    leases: Vec<BudgetLease>,
    /// The first `used` bytes are headers that follow `pieces`.
    headers: Option<BufMut>,
    used: usize,
    settled: RequestLoad,
}

pub(super) struct NbdOutbox {
    queue: RefCell<ReplyQueue>,
    memory: RequestMemory,
    /// Notified when a reply is added.
    pub(super) filled: Event,
}

impl NbdOutbox {
    pub(super) fn new(memory: RequestMemory) -> NbdOutbox {
        NbdOutbox {
            queue: RefCell::default(),
            memory,
            filled: Event::new(),
        }
    }

    /// Appends a header, at most [`HEADERS_BYTES`] long, and the data behind it.
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

    /// Keeps the lease of appended data until the data is sent.
    pub(super) fn keep(&self, lease: BudgetLease) {
        self.queue.borrow_mut().leases.push(lease);
    }

    /// Completes the reply of a request with this load: the bytes appended last are its end.
    pub(super) fn settle(&self, load: RequestLoad) {
        self.queue.borrow_mut().settled.add(load);
        self.filled.notify_all();
    }

    /// Takes all queued replies, or as many as fit a transfer. The result may be empty.
    ///
    /// If not all replies fit, the requests are settled with the last transfer.
    pub(super) fn take(&self) -> ReplyBatch {
        let mut queue = self.queue.borrow_mut();
        queue.seal();
        if queue.pieces.len() > PIECES_MAX {
            let rest = queue.pieces.split_off(PIECES_MAX);
            return ReplyBatch {
                pieces: std::mem::replace(&mut queue.pieces, rest),
                ..ReplyBatch::default()
            };
        }
        ReplyBatch {
            pieces: std::mem::take(&mut queue.pieces),
            leases: std::mem::take(&mut queue.leases),
            settled: std::mem::take(&mut queue.settled),
        }
    }
}

impl ReplyQueue {
    fn seal(&mut self) {
        if let Some(headers) = &mut self.headers
            && self.used > 0
        {
            self.pieces.push(headers.split_to(self.used).freeze());
            self.used = 0;
        }
    }
}
