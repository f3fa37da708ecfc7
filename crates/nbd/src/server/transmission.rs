//! Requests in, replies out: two loops per connection.
//!
//! [`read_requests`] parses the received bytes, request by request, and starts each at once: the future is polled on
//! the spot, and becomes a task only if the device makes it wait. So a device that answers from memory serves a whole
//! buffer of requests without a task switch, and [`send_replies`] then sends all their replies in one transfer.
//!
//! Before the loop receives more, it has the request admitted, and leases memory for the payload or the answer.
//! Requests beyond the limits or the memory stay in the socket. So a client that sends more than its limit, or does not
//! receive its replies, delays only itself. Clients that send at once get memory in turn.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_frontend::requests::{AdmittedRequest, PART_BYTES, start};

use super::connection::{NbdConnection, ReplyTicket};
use super::execute::{self, SplitWrite};
use super::export::REQUEST_BYTES_MAX;
use super::hangup::HangupReason;
use super::inbox::NbdInbox;
use super::outbox::ReplyBatch;
use super::request::{self, NbdCommand};
use super::wire::NbdWire;
use crate::codec::format::{self, NbdErrno, NbdRequest, command};

/// Memory for an answer to `BLOCK_STATUS`, in bytes: the extents of two contexts.
const STATUS_BYTES: u64 = 64 << 10;

/// Reads and starts requests until the client disconnects or violates the protocol.
pub(super) async fn read_requests(conn: &Rc<NbdConnection>, inbox: &mut NbdInbox) -> HangupReason {
    loop {
        if let Err(hangup) = next_request(conn, inbox).await {
            return hangup;
        }
    }
}

async fn next_request(conn: &Rc<NbdConnection>, inbox: &mut NbdInbox) -> Result<(), HangupReason> {
    inbox.wait().await?;
    inbox.need(format::REQUEST_BYTES).await?;
    let request = NbdRequest::decode(inbox.received())
        .ok_or(HangupReason::Garbage("a request without its magic number"))?;
    drop(inbox.take(format::REQUEST_BYTES));
    if request.command == command::DISC {
        return Err(HangupReason::Disconnect);
    }
    match request::check(&conn.session, &request) {
        Ok(command) => accept(conn, inbox, request.cookie, command).await,
        Err(errno) => refuse(conn, inbox, &request, errno).await,
    }
}

/// Answers a request with an error, after skipping its payload.
async fn refuse(
    conn: &Rc<NbdConnection>,
    inbox: &mut NbdInbox,
    request: &NbdRequest,
    errno: NbdErrno,
) -> Result<(), HangupReason> {
    if request.command == command::WRITE {
        if request.len > 2 * REQUEST_BYTES_MAX {
            return Err(HangupReason::Garbage("a write of excessive length"));
        }
        inbox.skip(request.len.into()).await?;
    }
    let ticket = ticket(request.cookie, conn.under_way.admit(0).await);
    match request.command {
        command::READ | command::BLOCK_STATUS => conn.reply_read_error(ticket, errno, None),
        _ => conn.reply(ticket, Err(errno)),
    }
    Ok(())
}

/// Turns the admission into a ticket. The request's share is returned when its reply is sent.
fn ticket(cookie: u64, admission: AdmittedRequest<'_>) -> ReplyTicket {
    ReplyTicket {
        cookie,
        load: admission.keep(),
    }
}

async fn accept(
    conn: &Rc<NbdConnection>,
    inbox: &mut NbdInbox,
    cookie: u64,
    command: NbdCommand,
) -> Result<(), HangupReason> {
    let bytes = match &command {
        NbdCommand::Read { range, .. } | NbdCommand::Write { range, .. } => range.end - range.start,
        NbdCommand::Status { .. } => STATUS_BYTES,
        NbdCommand::Change(_) => 0,
    };
    // Until a request has its ticket, dropping the admission returns its share if the client disconnects.
    let admission = conn.under_way.admit(bytes).await;
    match command {
        NbdCommand::Write { range, fua } => {
            write(conn, inbox, admission, cookie, range, fua).await?;
        }
        NbdCommand::Read { range, whole } => read(conn, admission, cookie, range, whole).await,
        NbdCommand::Change(change) => {
            let (owner, ticket) = (Rc::clone(conn), ticket(cookie, admission));
            start(&conn.rt, execute::change(owner, ticket, change));
        }
        NbdCommand::Status { range, one } => {
            let lease = conn.reply_memory(bytes as usize).await;
            execute::status(conn, ticket(cookie, admission), range, one, lease);
        }
    }
    Ok(())
}

async fn read(
    conn: &Rc<NbdConnection>,
    admission: AdmittedRequest<'_>,
    cookie: u64,
    range: Range<u64>,
    whole: bool,
) {
    let len = (range.end - range.start) as usize;
    let owner = Rc::clone(conn);
    if len > PART_BYTES && !whole {
        // Each part waits for its own memory.
        let ticket = ticket(cookie, admission);
        return start(&conn.rt, execute::read_chunks(owner, ticket, range));
    }
    let lease = conn.reply_memory(len).await;
    let ticket = ticket(cookie, admission);
    if len <= PART_BYTES {
        start(&conn.rt, execute::read(owner, ticket, range, lease));
    } else {
        start(&conn.rt, execute::read_whole(owner, ticket, range, lease));
    }
}

async fn write(
    conn: &Rc<NbdConnection>,
    inbox: &mut NbdInbox,
    admission: AdmittedRequest<'_>,
    cookie: u64,
    range: Range<u64>,
    fua: bool,
) -> Result<(), HangupReason> {
    if range.end - range.start <= PART_BYTES as u64 {
        let payload = inbox.payload((range.end - range.start) as usize).await?;
        let (owner, ticket) = (Rc::clone(conn), ticket(cookie, admission));
        start(
            &conn.rt,
            execute::write(owner, ticket, range.start, payload, fua),
        );
        return Ok(());
    }
    // The write never needs memory for more than one part at a time, however long it is.
    let whole = SplitWrite::new(Rc::clone(conn), ticket(cookie, admission));
    for part in execute::parts(range) {
        let payload = inbox.payload((part.end - part.start) as usize).await?;
        let write = execute::write_part(Rc::clone(&whole), part.start, payload, fua);
        start(&conn.rt, write);
    }
    whole.is_received();
    Ok(())
}

/// Sends replies until the connection is over. When sending fails, shuts the wire down and only counts the remaining
/// replies.
pub(super) async fn send_replies(conn: Rc<NbdConnection>, wire: Rc<dyn NbdWire>, stall: Duration) {
    let mut broken = false;
    loop {
        let next = || {
            let replies = conn.outbox.take();
            let none = replies.pieces.is_empty();
            (!none || conn.is_over()).then_some(replies)
        };
        let ReplyBatch {
            pieces,
            leases,
            settled,
        } = conn.outbox.filled.until(next).await;
        if pieces.is_empty() {
            return;
        }
        // Dropping the data, sent or not, precedes dropping its leases.
        if broken {
            drop(pieces);
        } else {
            let sent = conn.rt.timeout(stall, wire.send(pieces)).await;
            broken = !matches!(sent, Ok(Ok(())));
            if broken {
                tracing::debug!(target: "forebay::nbd", "replies cannot be sent any more");
                wire.shutdown();
            }
        }
        drop(leases);
        conn.under_way.release(settled);
    }
}
