//! One client's side of things once the haggling is over: what it may have under way, and its replies.

use std::cell::Cell;

use forebay_device::{Buf, Device};
use forebay_rt::{Account, Event, Lease, Rt};

use super::execute::Ticket;
use super::format::{self, Errno};
use super::handshake::Session;
use super::outbox::{HEADERS_COST, Outbox, Settled};
use super::server::Limits;
use crate::memory::Memory;

/// A request's share of what may be under way, given back if the request does not come about: its
/// client may be gone before it has sent the payload.
#[must_use = "it is given back at once otherwise"]
pub(super) struct Admission<'a> {
    conn: &'a Connection,
    bytes: u64,
}

impl Admission<'_> {
    /// The request has come about; its share is given back when its reply is sent.
    pub(super) fn ticket(self, cookie: u64) -> Ticket {
        let bytes = self.bytes;
        std::mem::forget(self);
        Ticket { cookie, bytes }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.conn.abandon(self.bytes);
    }
}

/// Shared by the task that reads requests, those that carry them out, and the one that sends replies.
///
/// Invariant: `under_way` counts what was admitted and whose reply is not yet sent or given up.
pub(super) struct Connection {
    pub(super) rt: Rt,
    pub(super) session: Session,
    pub(super) memory: Memory,
    pub(super) outbox: Outbox,
    /// What replies hold of the memory, and the headers among them for good.
    replies: Account,
    _headers: Lease,
    limits: Limits,
    under_way: Cell<Settled>,
    /// `under_way` became less.
    released: Event,
    /// No more requests come.
    closing: Cell<bool>,
}

impl Connection {
    /// `replies` has the outbox's reserve.
    pub(super) async fn new(
        rt: Rt,
        session: Session,
        memory: Memory,
        replies: Account,
        limits: Limits,
    ) -> Connection {
        let headers = replies.lease(HEADERS_COST).await;
        Connection {
            rt,
            session,
            outbox: Outbox::new(memory.clone()),
            memory,
            replies,
            _headers: headers,
            limits,
            under_way: Cell::default(),
            released: Event::new(),
            closing: Cell::new(false),
        }
    }

    pub(super) fn device(&self) -> &dyn Device {
        &**self.session.export.device()
    }

    /// Waits until a request that holds `bytes` may be under way too. A single one always may, so
    /// that the limit on bytes need not be as large as the largest request.
    pub(super) async fn admit(&self, bytes: u64) -> Admission<'_> {
        if !self.has_room(bytes) {
            let room = || self.has_room(bytes).then_some(());
            self.released.until(room).await;
        }
        let Settled {
            requests,
            bytes: sum,
        } = self.under_way.get();
        self.under_way.set(Settled {
            requests: requests + 1,
            bytes: sum + bytes,
        });
        Admission { conn: self, bytes }
    }

    fn has_room(&self, bytes: u64) -> bool {
        let now = self.under_way.get();
        let fits = now.bytes.saturating_add(bytes) <= self.limits.bytes_in_flight;
        now.requests == 0 || (fits && now.requests < self.limits.requests_in_flight)
    }

    /// Says that the replies of these requests are sent, or never will be.
    pub(super) fn release(&self, settled: Settled) {
        if settled == Settled::default() {
            return;
        }
        let now = self.under_way.get();
        self.under_way.set(Settled {
            requests: now.requests - settled.requests,
            bytes: now.bytes - settled.bytes,
        });
        self.released.notify_all();
    }

    /// Waits for memory for `len` bytes that answer a request.
    pub(super) async fn reply_memory(&self, len: usize) -> Lease {
        self.replies.lease(Memory::cost(len)).await
    }

    /// Says that a request for which `bytes` are under way will have no reply.
    pub(super) fn abandon(&self, bytes: u64) {
        self.release(Settled { requests: 1, bytes });
        // If it was the last, nothing is left to be sent.
        self.outbox.filled.notify_all();
    }

    /// Says that no more requests come.
    pub(super) fn close(&self) {
        self.closing.set(true);
        self.outbox.filled.notify_all();
    }

    /// True once nothing is left to be done or sent.
    pub(super) fn is_over(&self) -> bool {
        self.closing.get() && self.under_way.get().requests == 0
    }

    /// Adds to the replies.
    pub(super) fn put(&self, bytes: Buf) {
        self.outbox.put(&[], [bytes]);
    }

    /// The reply is complete.
    pub(super) fn settle(&self, ticket: Ticket) {
        self.outbox.settle(ticket.bytes);
    }

    /// A reply without data, for anything but reads and block status.
    pub(super) fn reply(&self, ticket: Ticket, outcome: Result<(), Errno>) {
        let header = format::simple_reply(ticket.cookie, outcome.err());
        self.outbox.put(&header, []);
        self.settle(ticket);
    }

    /// The whole answer of a read from `at` on, `data` with its lease.
    pub(super) fn reply_data(
        &self,
        ticket: Ticket,
        at: u64,
        data: impl IntoIterator<Item = Buf>,
        lease: Lease,
    ) {
        let data: Vec<Buf> = data.into_iter().collect();
        let len: usize = data.iter().map(|piece| piece.len()).sum();
        if self.session.structured {
            // A read is at most 32 MiB.
            let header = format::data_chunk(ticket.cookie, true, at, len as u32);
            self.outbox.put(&header, data);
        } else {
            self.outbox
                .put(&format::simple_reply(ticket.cookie, None), data);
        }
        self.outbox.keep(lease);
        self.settle(ticket);
    }

    /// The error of a read, for a position if one is known.
    pub(super) fn reply_read_error(&self, ticket: Ticket, errno: Errno, at: Option<u64>) {
        if self.session.structured {
            self.chunk_error(ticket, true, errno, at);
        } else {
            self.reply(ticket, Err(errno));
        }
    }

    /// Part of the answer of a read.
    pub(super) fn chunk_data(&self, ticket: Ticket, done: bool, at: u64, data: Buf, lease: Lease) {
        let header = format::data_chunk(ticket.cookie, done, at, data.len() as u32);
        self.outbox.put(&header, [data]);
        self.outbox.keep(lease);
        self.chunk_put(ticket, done);
    }

    /// An error as part of a structured answer.
    pub(super) fn chunk_error(&self, ticket: Ticket, done: bool, errno: Errno, at: Option<u64>) {
        let chunk = format::error_chunk(ticket.cookie, done, errno, at);
        self.outbox.put(&chunk, []);
        self.chunk_put(ticket, done);
    }

    fn chunk_put(&self, ticket: Ticket, done: bool) {
        if done {
            self.settle(ticket);
        } else {
            self.outbox.filled.notify_all();
        }
    }
}
