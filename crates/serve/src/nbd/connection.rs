//! One client's side of things once the haggling is over: what it may have under way, and its replies.

use std::cell::Cell;

use forebay_device::Buf;
use forebay_rt::{Account, Lease, Rt};

use super::format::{self, Errno};
use super::handshake::Session;
use super::limits::Limits;
use super::outbox::{HEADERS_COST, Outbox};
use crate::requests::{Load, Memory, Target, UnderWay};

/// What to answer, and what it takes of what may be under way until it is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) cookie: u64,
    pub(super) load: Load,
}

/// Shared by the task that reads requests, those that carry them out, and the one that sends replies.
///
/// A request is under way from its admission until its reply is sent or given up.
pub(super) struct Connection {
    pub(super) rt: Rt,
    pub(super) session: Session,
    pub(super) memory: Memory,
    pub(super) outbox: Outbox,
    /// What replies hold of the memory, and the headers among them for good.
    replies: Account,
    _headers: Lease,
    pub(super) under_way: UnderWay,
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
            under_way: UnderWay::new(limits.under_way()),
            closing: Cell::new(false),
        }
    }

    pub(super) fn target(&self) -> &Target {
        self.session.export.target()
    }

    /// Waits for memory for `len` bytes that answer a request.
    pub(super) async fn reply_memory(&self, len: usize) -> Lease {
        self.replies.lease(Memory::cost(len)).await
    }

    /// Says that a request will have no reply.
    pub(super) fn abandon(&self, ticket: Ticket) {
        self.under_way.release(ticket.load);
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
        self.closing.get() && self.under_way.is_idle()
    }

    /// Adds to the replies.
    pub(super) fn put(&self, bytes: Buf) {
        self.outbox.put(&[], [bytes]);
    }

    /// The reply is complete.
    pub(super) fn settle(&self, ticket: Ticket) {
        self.outbox.settle(ticket.load);
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
