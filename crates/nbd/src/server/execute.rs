//! Execution of a valid request, and its reply.
//!
//! Requests larger than [`PART_BYTES`] go to the device in parts of this size, all at once. A write up to this size is
//! one device request, so it is as atomic as the device's writes.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{BufMut, DeviceError, Result};
use forebay_frontend::requests::{ChangeRequest, PART_BYTES, RequestFault};
use forebay_rt::BudgetLease;
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::connection::{NbdConnection, ReplyTicket};
use super::handshake::MetaContexts;
use super::inbox::WritePayload;
use super::status::StatusExtent;
use crate::codec::format::{self, NbdErrno};

/// Limit on the extents in an answer. A client that wants more asks again from the end of the last extent.
const EXTENTS_MAX: usize = 4096;

/// A write in several parts, each of which is written while the next is received. If the client has sent all parts, the
/// write is answered when the last part drops its reference.
pub(super) struct SplitWrite {
    conn: Rc<NbdConnection>,
    ticket: ReplyTicket,
    /// The first error of a part.
    outcome: Cell<Result<(), NbdErrno>>,
    received: Cell<bool>,
}

impl SplitWrite {
    pub(super) fn new(conn: Rc<NbdConnection>, ticket: ReplyTicket) -> Rc<SplitWrite> {
        Rc::new(SplitWrite {
            conn,
            ticket,
            outcome: Cell::new(Ok(())),
            received: Cell::new(false),
        })
    }

    /// Records that the client has sent all parts.
    pub(super) fn is_received(&self) {
        self.received.set(true);
    }
}

impl Drop for SplitWrite {
    fn drop(&mut self) {
        if self.received.get() {
            self.conn.reply(self.ticket, self.outcome.get());
        } else {
            self.conn.abandon(self.ticket);
        }
    }
}

/// Converts a device's error. The protocol reserves `EOVERFLOW` and `ENOTSUP` for one use each, so neither is returned
/// here.
fn errno(error: &DeviceError) -> NbdErrno {
    match RequestFault::of(error) {
        RequestFault::Io => NbdErrno::Io,
        RequestFault::NoMemory => NbdErrno::NoMem,
        RequestFault::NoSpace => NbdErrno::NoSpc,
        RequestFault::ReadOnly => NbdErrno::Perm,
        RequestFault::Unaligned | RequestFault::Refused => NbdErrno::Inval,
        RequestFault::Closing => NbdErrno::Shutdown,
    }
}

/// Returns `range` in parts of [`PART_BYTES`]. The last part can be shorter.
pub(super) fn parts(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    let starts = range.step_by(PART_BYTES);
    starts.map(move |start| start..end.min(start + PART_BYTES as u64))
}

/// Answers a request that returns no data.
fn answer(conn: &NbdConnection, ticket: ReplyTicket, outcome: Result<()>) {
    conn.reply(ticket, outcome.as_ref().map_err(errno).copied());
}

pub(super) async fn write(
    conn: Rc<NbdConnection>,
    ticket: ReplyTicket,
    at: u64,
    WritePayload { data, lease }: WritePayload,
    fua: bool,
) {
    let outcome = conn.target().write(at, data, fua).await;
    drop(lease);
    answer(&conn, ticket, outcome);
}

pub(super) async fn write_part(
    whole: Rc<SplitWrite>,
    at: u64,
    WritePayload { data, lease }: WritePayload,
    fua: bool,
) {
    let outcome = whole.conn.target().write(at, data, fua).await;
    drop(lease);
    let outcome = outcome.as_ref().map_err(errno).copied();
    whole.outcome.set(whole.outcome.get().and(outcome));
}

pub(super) async fn change(conn: Rc<NbdConnection>, ticket: ReplyTicket, change: ChangeRequest) {
    let outcome = conn.target().change(change).await;
    answer(&conn, ticket, outcome);
}

pub(super) async fn read(
    conn: Rc<NbdConnection>,
    ticket: ReplyTicket,
    range: Range<u64>,
    lease: BudgetLease,
) {
    let len = (range.end - range.start) as usize;
    let buf = conn.memory.take(len);
    match conn.target().read(range.start, buf).await {
        Ok(buf) => conn.reply_data(ticket, range.start, [buf.freeze()], lease),
        Err(error) => conn.reply_read_error(ticket, errno(&error), Some(range.start)),
    }
}

/// Executes a large read that needs a single answer. The first part cannot be sent before the last is read, because the
/// header contains the outcome of the whole.
pub(super) async fn read_whole(
    conn: Rc<NbdConnection>,
    ticket: ReplyTicket,
    range: Range<u64>,
    lease: BudgetLease,
) {
    let (target, start) = (conn.target(), range.start);
    let reads = parts(range).map(|part| {
        let buf = conn.memory.take((part.end - part.start) as usize);
        async move {
            let read = target.read(part.start, buf).await;
            read.map_err(|error| (errno(&error), part.start))
        }
    });
    match join_all(reads)
        .await
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
    {
        Ok(bufs) => {
            let data = bufs.into_iter().map(BufMut::freeze);
            conn.reply_data(ticket, start, data, lease);
        }
        Err((errno, at)) => conn.reply_read_error(ticket, errno, Some(at)),
    }
}

/// Executes a large read that may be answered in chunks. Each chunk's read begins when memory for it is available, and
/// the chunk is sent as soon as it is read.
pub(super) async fn read_chunks(conn: Rc<NbdConnection>, ticket: ReplyTicket, range: Range<u64>) {
    let owner = &conn;
    let mut reads: FuturesUnordered<_> = parts(range)
        .map(|part| async move {
            let len = (part.end - part.start) as usize;
            let lease = owner.reply_memory(len).await;
            let buf = owner.memory.take(len);
            let read = owner.target().read(part.start, buf).await;
            (part.start, read, lease)
        })
        .collect();
    while let Some((at, outcome, lease)) = reads.next().await {
        let done = reads.is_empty();
        match outcome {
            Ok(buf) => conn.chunk_data(ticket, done, at, buf.freeze(), lease),
            Err(error) => conn.chunk_error(ticket, done, errno(&error), Some(at)),
        }
    }
}

/// Returns lengths and values of `extents`, clipped to `len` bytes, with neighbours of equal value merged.
fn describe(
    extents: &[StatusExtent],
    len: u64,
    value: impl Fn(&StatusExtent) -> u32,
) -> Vec<(u32, u32)> {
    let mut out: Vec<(u32, u32)> = Vec::new();
    let mut left = len;
    for extent in extents.iter().take(EXTENTS_MAX) {
        let n = extent.len.min(left);
        if n == 0 {
            break;
        }
        left -= n;
        // The cast is lossless: the range's length came as 32 bits.
        let n = n as u32;
        match out.last_mut() {
            Some((len, last)) if *last == value(extent) => *len += n,
            _ => out.push((n, value(extent))),
        }
    }
    if out.is_empty() {
        // The protocol wants at least one extent, and the value 0 is valid for any range.
        out.push((len as u32, 0));
    }
    out
}

/// Answers a block status request. It answers from memory, so the function is not async.
pub(super) fn status(
    conn: &NbdConnection,
    ticket: ReplyTicket,
    range: Range<u64>,
    one: bool,
    lease: BudgetLease,
) {
    const HOLE: u32 = 1 << 0;
    const ZERO: u32 = 1 << 1;
    let session = &conn.session;
    let len = range.end - range.start;
    let extents = session.export.block_status().status(range, EXTENTS_MAX);
    let allocation =
        |e: &StatusExtent| if e.hole { HOLE } else { 0 } | if e.zero { ZERO } else { 0 };
    let mut chunks = Vec::new();
    if session.contexts.allocation {
        chunks.push((
            MetaContexts::ALLOCATION,
            describe(&extents, len, allocation),
        ));
    }
    if session.contexts.own {
        chunks.push((MetaContexts::OWN, describe(&extents, len, |e| e.value)));
    }
    let last = chunks.len() - 1;
    for (i, (context, mut extents)) in chunks.into_iter().enumerate() {
        if one {
            extents.truncate(1);
        }
        let chunk = format::status_chunk(ticket.cookie, i == last, context, &extents);
        conn.put(BufMut::copy_of(&chunk).freeze());
    }
    conn.outbox.keep(lease);
    conn.settle(ticket);
}

#[cfg(test)]
mod tests {
    use forebay_device::DeviceOp;

    use super::*;

    #[test]
    fn system_errors_map_to_nbd_errors() {
        for (system, expected) in [
            (5, NbdErrno::Io),
            (12, NbdErrno::NoMem),
            (30, NbdErrno::Perm),
            (122, NbdErrno::NoSpc),
            (95, NbdErrno::Inval),
            (75, NbdErrno::Inval),
            (108, NbdErrno::Shutdown),
            (-1, NbdErrno::Io),
        ] {
            let source = std::io::Error::from_raw_os_error(system);
            let error = DeviceError::io(DeviceOp::Read, 0..0, source);
            assert_eq!(errno(&error), expected, "{system}");
        }
    }
}
