//! The server's side of one connection after the handshake: its requests under way and their replies.

use std::cell::Cell;

use forebay_device::Buf;
use forebay_frontend::requests::{FrontDevice, RequestLimiter, RequestLoad, RequestMemory};
use forebay_rt::{BudgetAccount, BudgetLease, Rt};

use super::handshake::NbdSession;
use super::limits::ClientLimits;
use super::outbox::{HEADERS_COST, NbdOutbox};
use crate::codec::format::{self, NbdErrno};

/// The cookie of a request, and the share of the connection's limits that the request holds until it is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyTicket {
    pub(super) cookie: u64,
    pub(super) load: RequestLoad,
}

/// State shared by the task that reads requests, those that execute them, and the task that sends replies.
///
/// A request is under way from its admission until its reply is sent or abandoned.
pub(super) struct NbdConnection {
    pub(super) rt: Rt,
    pub(super) session: NbdSession,
    pub(super) memory: RequestMemory,
    pub(super) outbox: NbdOutbox,
    /// Account for the memory of replies. The memory of headers stays leased as long as the connection.
    replies: BudgetAccount,
    _headers: BudgetLease,
    pub(super) under_way: RequestLimiter,
    /// No more requests will come.
    closing: Cell<bool>,
}

impl NbdConnection {
    /// Creates the state of a connection. `replies` has the reserve of the outbox.
    pub(super) async fn new(
        rt: Rt,
        session: NbdSession,
        memory: RequestMemory,
        replies: BudgetAccount,
        limits: ClientLimits,
    ) -> NbdConnection {
        let headers = replies.lease(HEADERS_COST).await;
        NbdConnection {
            rt,
            session,
            outbox: NbdOutbox::new(memory.clone()),
            memory,
            replies,
            _headers: headers,
            under_way: RequestLimiter::new(limits.under_way()),
            closing: Cell::new(false),
        }
    }

    pub(super) fn target(&self) -> &FrontDevice {
        self.session.export.target()
    }

    /// Waits for memory for `len` bytes that answer a request.
    pub(super) async fn reply_memory(&self, len: usize) -> BudgetLease {
        self.replies.lease(RequestMemory::cost(len)).await
    }

    /// Ends a request without a reply.
    pub(super) fn abandon(&self, ticket: ReplyTicket) {
        self.under_way.release(ticket.load);
        // This may have been the last request, after which the sender has to end.
        self.outbox.filled.notify_all();
    }

    /// Records that no more requests will come.
    pub(super) fn close(&self) {
        self.closing.set(true);
        self.outbox.filled.notify_all();
    }

    /// Returns true once all requests have ended and their replies are sent.
    pub(super) fn is_over(&self) -> bool {
        self.closing.get() && self.under_way.is_idle()
    }

    /// Appends to the replies.
    pub(super) fn put(&self, bytes: Buf) {
        self.outbox.put(&[], [bytes]);
    }

    /// Completes the reply.
    pub(super) fn settle(&self, ticket: ReplyTicket) {
        self.outbox.settle(ticket.load);
    }

    /// Sends a reply without data. Not for reads or block status.
    pub(super) fn reply(&self, ticket: ReplyTicket, outcome: Result<(), NbdErrno>) {
        let header = format::simple_reply(ticket.cookie, outcome.err());
        self.outbox.put(&header, []);
        self.settle(ticket);
    }

    /// Sends the whole answer of a read that began at `at`: `data` with its lease.
    pub(super) fn reply_data(
        &self,
        ticket: ReplyTicket,
        at: u64,
        data: impl IntoIterator<Item = Buf>,
        lease: BudgetLease,
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

    /// Sends the error of a read, with its offset if known.
    pub(super) fn reply_read_error(&self, ticket: ReplyTicket, errno: NbdErrno, at: Option<u64>) {
        if self.session.structured {
            self.chunk_error(ticket, true, errno, at);
        } else {
            self.reply(ticket, Err(errno));
        }
    }

    /// Sends a part of the answer of a read.
    pub(super) fn chunk_data(
        &self,
        ticket: ReplyTicket,
        done: bool,
        at: u64,
        data: Buf,
        lease: BudgetLease,
    ) {
        let header = format::data_chunk(ticket.cookie, done, at, data.len() as u32);
        self.outbox.put(&header, [data]);
        self.outbox.keep(lease);
        self.chunk_put(ticket, done);
    }

    /// Sends an error as part of a structured answer.
    pub(super) fn chunk_error(
        &self,
        ticket: ReplyTicket,
        done: bool,
        errno: NbdErrno,
        at: Option<u64>,
    ) {
        let chunk = format::error_chunk(ticket.cookie, done, errno, at);
        self.outbox.put(&chunk, []);
        self.chunk_put(ticket, done);
    }

    fn chunk_put(&self, ticket: ReplyTicket, done: bool) {
        if done {
            self.settle(ticket);
        } else {
            self.outbox.filled.notify_all();
        }
    }
}
