//! One request, from its arrival to its answer.

use std::cell::Cell;
use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut};
use forebay_os::{FuseEntry, Ring};
use forebay_rt::{Instant, Lease, Rt};

use super::channel::Channel;
use super::entry::Entry;
use super::inbox::Inbox;
use super::notify::{Notifier, Stale};
use crate::requests::{Admission, Load, Memory, UnderWay, start};
use forebay_fuse::{self as format, Op, Request, out_header};

/// What the requests of one connection share.
pub(super) struct Connection {
    pub(super) rt: Rt,
    pub(super) ring: Rc<Ring>,
    pub(super) channel: Channel,
    pub(super) notifier: Notifier,
    pub(super) memory: Memory,
    /// Where the kernel is told how far to read ahead, in KiB.
    pub(super) read_ahead: Option<PathBuf>,
    pub(super) under_way: UnderWay,
    /// Requests came by the ring.
    pub(super) by_ring: Rc<Cell<bool>>,
}

impl Connection {
    /// Answers a request with `payload`: in the entry in which it came, if it came in one.
    fn reply(&self, unique: u64, entry: Option<FuseEntry>, payload: &[u8]) {
        match entry {
            Some(entry) => entry.answer(&out_header(unique, 0, payload.len()), payload),
            None => self.channel.reply(unique, payload),
        }
    }

    /// Answers one with the error number `errno`.
    pub(super) fn refuse(&self, unique: u64, entry: Option<FuseEntry>, errno: i32) {
        match entry {
            Some(entry) => entry.answer(&out_header(unique, errno, 0), &[]),
            None => self.channel.reply_error(unique, errno),
        }
    }
}

/// How a request came.
pub(super) enum Came<'a> {
    /// By `/dev/fuse`: so many bytes, which lie here.
    Read(&'a mut Inbox, usize),
    /// By the ring, in an entry.
    Fetched(Entry<'a>),
}

/// A request as it was received. It is either answered at once or [begun](Arrival::begin).
pub struct Arrival<'a> {
    pub(super) connection: &'a Rc<Connection>,
    pub(super) admission: Admission<'a>,
    pub(super) came: Came<'a>,
    pub(super) request: Request,
}

impl Arrival<'_> {
    /// What is asked.
    pub fn op(&self) -> Op {
        self.request.op
    }

    /// The inode it is about.
    pub fn node(&self) -> u64 {
        self.request.node
    }

    /// All of what the kernel says beside that and its data: who asks.
    pub fn request(&self) -> Request {
        self.request
    }

    fn parts(&self) -> [&[u8]; 2] {
        match &self.came {
            Came::Read(inbox, total) => inbox.body(*total),
            Came::Fetched(entry) => entry.body(),
        }
    }

    /// What lies behind its header.
    pub fn body(&self) -> Vec<u8> {
        self.parts().concat()
    }

    /// True if the name it is about is `name`.
    pub fn is_named(&self, name: &[u8]) -> bool {
        format::is_name(self.parts(), name)
    }

    fn entry(self) -> Option<FuseEntry> {
        match self.came {
            Came::Read(..) => None,
            Came::Fetched(entry) => Some(entry.entry),
        }
    }

    /// Answers it with `payload`.
    pub fn reply(self, payload: &[u8]) {
        let (connection, unique) = (self.connection, self.request.unique);
        connection.reply(unique, self.entry(), payload);
    }

    /// Answers it with the error number `errno`.
    pub fn refuse(self, errno: i32) {
        let (connection, unique) = (self.connection, self.request.unique);
        connection.refuse(unique, self.entry(), errno);
    }

    /// Waits for memory for `len` bytes, which others will give back.
    pub async fn lease(&self, len: usize) -> Lease {
        match &self.came {
            Came::Read(inbox, _) => inbox.lease(len).await,
            Came::Fetched(entry) => entry.lease(len).await,
        }
    }

    /// The first `len` bytes of its data, with the lease of their memory, for which it waits.
    pub async fn data(&mut self, len: usize) -> (Buf, Lease) {
        match &mut self.came {
            Came::Read(inbox, _) => inbox.data(len).await,
            Came::Fetched(entry) => entry.data(&self.connection.memory, len).await,
        }
    }

    /// Takes it up, to be answered in its own time: `answer` goes as far as it can at once, and what
    /// is left of it becomes a task.
    pub fn begin<F: Future<Output = ()> + 'static>(self, answer: impl FnOnce(Underway) -> F) {
        let connection = Rc::clone(self.connection);
        let entry = match self.came {
            Came::Read(..) => None,
            Came::Fetched(entry) => Some(entry.entry),
        };
        let underway = Underway {
            unique: self.request.unique,
            entry: Cell::new(entry),
            load: self.admission.keep(),
            began: connection.rt.now(),
            connection,
        };
        let rt = underway.connection.rt.clone();
        start(&rt, answer(underway));
    }
}

/// A request that was taken up; counts as under way until it is dropped.
pub struct Underway {
    connection: Rc<Connection>,
    unique: u64,
    /// In which it came and is to be answered.
    entry: Cell<Option<FuseEntry>>,
    load: Load,
    began: Instant,
}

impl Underway {
    /// A buffer of `len` bytes, which are leased.
    pub fn buffer(&self, len: usize) -> BufMut {
        self.connection.memory.take(len)
    }

    /// How long ago it was taken up.
    pub fn took(&self) -> Duration {
        self.connection.rt.now().since(self.began)
    }

    /// Answers it with `payload`.
    pub fn reply(&self, payload: &[u8]) {
        let entry = self.entry.take();
        self.connection.reply(self.unique, entry, payload);
    }

    /// Has the kernel forget what it keeps of files, and waits until it has. Not to be waited for before a request is
    /// answered that holds pages of these: a read, or a write of a part of a page.
    pub async fn forget(&self, stale: &[Stale]) {
        let connection = &self.connection;
        let told = connection.notifier.forget(&connection.channel, stale);
        if let Err(error) = told.await {
            tracing::warn!(%error, "the kernel could not be told that what it keeps of a file is old");
        }
    }

    /// The same, but waits no longer than this; true if the kernel has forgotten it then. Otherwise it will later.
    pub async fn forget_within(&self, stale: &[Stale], patience: Duration) -> bool {
        let told = self.connection.rt.timeout(patience, self.forget(stale));
        told.await.is_ok()
    }

    /// Answers it with the error number `errno`.
    pub fn refuse(&self, errno: i32) {
        let entry = self.entry.take();
        self.connection.refuse(self.unique, entry, errno);
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        // What came in an entry is answered in any case, or the kernel would miss the entry for ever.
        if let Some(entry) = self.entry.take() {
            let entry = Some(entry);
            self.connection.refuse(self.unique, entry, libc::EIO);
        }
        self.connection.under_way.release(self.load);
    }
}
