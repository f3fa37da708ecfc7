//! One request, from its arrival to its answer.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut};
use forebay_os::{FuseEntry, Ring};
use forebay_rt::{Event, Instant, Lease, Rt};
use futures_util::future::try_join_all;

use super::channel::Channel;
use super::entry::{Entry, OF_EACH_MIN};
use super::inbox::Inbox;
use super::notify::{Notifier, Stale};
use crate::requests::{Admission, Load, Memory, UnderWay, start};
use forebay_fuse::{self as format, Op, Request, out_header};

/// Requests in entries that may wait for the kernel for as long as it takes: fewer than a queue has entries, in whichever queue
/// they are.
const WAITING_ENTRIES_MAX: usize = OF_EACH_MIN / 2;
/// How long others wait.
const ENTRY_PATIENCE: Duration = Duration::from_millis(20);

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
    /// What was agreed with the kernel (`init_flag`).
    pub(super) agreed: Cell<u64>,
    /// Requests in entries of the ring that wait for the kernel.
    pub(super) waiting_entries: Cell<usize>,
}

impl Connection {
    /// Answers a request with `payload`: in the entry in which it came, if it came in one.
    fn reply(&self, unique: u64, entry: Option<FuseEntry>, payload: &[u8]) {
        match entry {
            Some(entry) => entry.answer(&out_header(unique, 0, payload.len()), payload),
            None => self.channel.reply(unique, payload),
        }
    }

    /// Has the kernel forget what it keeps of files, and waits until it has.
    async fn told(&self, stale: &[Stale]) {
        let told = match self.notifier.forget(&self.channel, stale) {
            Ok(all) => try_join_all(all).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = told {
            not_told(&error);
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

/// An entry of the ring is counted among those whose requests wait for the kernel, as long as this is there.
struct Waits<'a>(&'a Cell<usize>);

impl Waits<'_> {
    fn new(count: &Cell<usize>) -> Waits<'_> {
        count.set(count.get() + 1);
        Waits(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

fn not_told(error: &io::Error) {
    tracing::warn!(%error, "the kernel could not be told that what it keeps of a file is old");
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
            place: Cell::new(Some(self.admission.keep())),
            began: connection.rt.now(),
            connection,
        };
        let rt = underway.connection.rt.clone();
        start(&rt, answer(underway));
    }
}

/// A request that was taken up; counts as under way until it is dropped.
///
/// The kernel may have to be told something before a request is answered, and does not take note before it has got answers to
/// others: it waits for pages that are being read. So a request that waits for the kernel has no place among those under way,
/// or all places could come to be of such requests, and no read be accepted. An entry of the ring cannot be given back so
/// early, and waits are short where few are left.
pub struct Underway {
    connection: Rc<Connection>,
    unique: u64,
    /// In which it came and is to be answered.
    entry: Cell<Option<FuseEntry>>,
    /// Its place among those under way, until it waits for the kernel.
    place: Cell<Option<Load>>,
    began: Instant,
}

impl Underway {
    /// A buffer of `len` bytes, which are leased.
    pub fn buffer(&self, len: usize) -> BufMut {
        self.connection.memory.take(len)
    }

    /// What was agreed with the kernel: see [`init_flag`](forebay_fuse::init_flag).
    pub fn agreed(&self) -> u64 {
        self.connection.agreed.get()
    }

    /// The time, of the executor.
    pub fn now(&self) -> Instant {
        self.connection.rt.now()
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
    /// answered that holds pages of these: a read, or a write of a part of a page. If the request lies in an entry of the ring
    /// and many do that wait like this, it waits for 20 ms at most; the kernel forgets it soon after.
    pub async fn forget(&self, stale: &[Stale]) {
        self.wait_for(stale, self.connection.told(stale)).await;
    }

    /// Waits until the kernel is `told`, or for less long.
    async fn wait_for(&self, stale: &[Stale], told: impl Future<Output = ()>) {
        self.set_aside();
        let waiting = &self.connection.waiting_entries;
        let Some(entry) = self.entry.take() else {
            return told.await;
        };
        self.entry.set(Some(entry));
        let _waits = Waits::new(waiting);
        // Of attributes it is told soon, whatever else it waits for.
        let is_soon = stale.iter().all(|stale| stale.bytes.is_none());
        if is_soon || waiting.get() <= WAITING_ENTRIES_MAX {
            return told.await;
        }
        let told = self.connection.rt.timeout(ENTRY_PATIENCE, told);
        let _ = told.await;
    }

    /// The same, and drops `kept` when the kernel has really forgotten all of it.
    pub async fn forget_keeping<T: 'static>(&self, stale: &[Stale], kept: T) {
        let connection = Rc::clone(&self.connection);
        let is_told = Rc::new((Cell::new(false), Event::new()));
        let (all, tells) = (stale.to_vec(), Rc::clone(&is_told));
        let telling = async move {
            connection.told(&all).await;
            drop(kept);
            tells.0.set(true);
            tells.1.notify_all();
        };
        self.connection.rt.spawn(telling).detach();
        let told = async {
            let (is_done, event) = &*is_told;
            event.until(|| is_done.get().then_some(())).await;
        };
        self.wait_for(stale, told).await;
    }

    /// The same, but waits no longer than this; true if the kernel has forgotten it then. Otherwise it will later.
    pub async fn forget_within(&self, stale: &[Stale], patience: Duration) -> bool {
        self.set_aside();
        let told = self
            .connection
            .rt
            .timeout(patience, self.connection.told(stale));
        told.await.is_ok()
    }

    /// The same, and does not wait.
    pub fn forget_later(&self, stale: &[Stale]) {
        let connection = &self.connection;
        let notifier = &connection.notifier;
        if let Err(error) = notifier.forget_later(&connection.channel, stale) {
            not_told(&error);
        }
    }

    /// Gives its place back, since it waits for the kernel.
    fn set_aside(&self) {
        if let Some(place) = self.place.take() {
            self.connection.under_way.set_aside(place);
        }
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
        match self.place.take() {
            Some(place) => self.connection.under_way.release(place),
            None => self.connection.under_way.end_aside(),
        }
    }
}
