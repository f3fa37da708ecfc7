//! One request, from its arrival to its answer.

use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut};
use forebay_rt::{Instant, Lease, Rt};

use super::channel::Channel;
use super::inbox::Inbox;
use super::notify::{Notifier, Stale};
use crate::requests::{Admission, Load, Memory, UnderWay, start};
use forebay_fuse::{self as format, Op, Request};

/// What the requests of one connection share.
pub(super) struct Connection {
    pub(super) rt: Rt,
    pub(super) channel: Channel,
    pub(super) notifier: Notifier,
    pub(super) memory: Memory,
    /// Where the kernel is told how far to read ahead, in KiB.
    pub(super) read_ahead: Option<PathBuf>,
    pub(super) under_way: UnderWay,
}

/// A request as it was received. It is either answered at once or [begun](Arrival::begin).
pub struct Arrival<'a> {
    pub(super) connection: &'a Rc<Connection>,
    pub(super) admission: Admission<'a>,
    pub(super) inbox: &'a mut Inbox,
    pub(super) request: Request,
    /// Bytes of the whole message.
    pub(super) total: usize,
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

    /// What lies behind its header.
    pub fn body(&self) -> Vec<u8> {
        self.inbox.body(self.total).concat()
    }

    /// True if the name it is about is `name`.
    pub fn is_named(&self, name: &[u8]) -> bool {
        format::is_name(self.inbox.body(self.total), name)
    }

    /// Answers it with `payload`.
    pub fn reply(self, payload: &[u8]) {
        self.connection.channel.reply(self.request.unique, payload);
    }

    /// Answers it with the error number `errno`.
    pub fn refuse(self, errno: i32) {
        let unique = self.request.unique;
        self.connection.channel.reply_error(unique, errno);
    }

    /// Waits for memory for `len` bytes, which others will give back.
    pub async fn lease(&self, len: usize) -> Lease {
        self.inbox.lease(len).await
    }

    /// The first `len` bytes of its data, with the lease of their memory, for which it waits.
    pub async fn data(&mut self, len: usize) -> (Buf, Lease) {
        self.inbox.data(len).await
    }

    /// Takes it up, to be answered in its own time: `answer` goes as far as it can at once, and what
    /// is left of it becomes a task.
    pub fn begin<F: Future<Output = ()> + 'static>(self, answer: impl FnOnce(Underway) -> F) {
        let underway = Underway {
            connection: Rc::clone(self.connection),
            unique: self.request.unique,
            load: self.admission.keep(),
            began: self.connection.rt.now(),
        };
        start(&self.connection.rt, answer(underway));
    }
}

/// A request that was taken up; counts as under way until it is dropped.
pub struct Underway {
    connection: Rc<Connection>,
    unique: u64,
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
        self.connection.channel.reply(self.unique, payload);
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
        self.connection.channel.reply_error(self.unique, errno);
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.connection.under_way.release(self.load);
    }
}
