//! One request, from its arrival to its answer.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut};
use forebay_frontend::requests::{
    AdmittedRequest, RequestLimiter, RequestLoad, RequestMemory, start,
};
use forebay_linux::{FuseEntry, IoRing};
use forebay_rt::{BudgetLease, Event, Instant, Rt};
use futures_util::future::try_join_all;

use super::channel::FuseChannel;
use super::entry::{OF_EACH_MIN, ReceivedEntry};
use super::inbox::FuseInbox;
use super::notify::{KernelNotifier, StaleCache};
use crate::codec::{MalformedPart, MalformedRequest, out_header};

/// Number of requests in entries that may wait for the kernel without a time limit. It is smaller than the number of
/// entries of a queue, because all of them can be in one queue.
const WAITING_ENTRIES_MAX: usize = OF_EACH_MIN / 2;
/// Time limit of the wait of the other requests in entries.
const ENTRY_PATIENCE: Duration = Duration::from_millis(20);

/// State shared by the requests of one connection.
pub(super) struct FuseConnection {
    pub(super) rt: Rt,
    pub(super) ring: Rc<IoRing>,
    pub(super) channel: FuseChannel,
    pub(super) notifier: KernelNotifier,
    pub(super) memory: RequestMemory,
    /// The kernel's file for the read-ahead limit, in KiB.
    pub(super) read_ahead: Option<PathBuf>,
    pub(super) under_way: RequestLimiter,
    /// True once requests come through the ring.
    pub(super) by_ring: Rc<Cell<bool>>,
    /// The flags agreed on with the kernel (`init_flag`).
    pub(super) agreed: Cell<u64>,
    /// Number of requests in entries of the ring that wait for the kernel.
    pub(super) waiting_entries: Cell<usize>,
}

impl FuseConnection {
    /// Answers a request with `payload`, in the entry that the request came in, if any.
    fn reply(&self, unique: u64, entry: Option<FuseEntry>, payload: &[u8]) {
        match entry {
            Some(entry) => entry.answer(&out_header(unique, 0, payload.len()), payload),
            None => self.channel.reply(unique, payload),
        }
    }

    /// Answers a malformed message, if the message contains the number that the answer must repeat.
    pub(super) fn refuse_malformed(&self, message: MalformedRequest, entry: Option<FuseEntry>) {
        let part = match message.part {
            MalformedPart::Length => "length",
            MalformedPart::Body => "body",
        };
        tracing::warn!(
            request = message.unique,
            "the {part} of a FUSE request is malformed"
        );
        let errno = match message.part {
            MalformedPart::Length => libc::EIO,
            MalformedPart::Body => libc::EINVAL,
        };
        match (message.unique, entry) {
            (None, None) => {}
            (unique, entry) => self.refuse(unique.unwrap_or_default(), entry, errno),
        }
    }

    /// Invalidates the kernel's caches of files, and waits for the end of the invalidation.
    async fn told(&self, stale: &[StaleCache]) {
        let told = match self.notifier.forget(&self.channel, stale) {
            Ok(all) => try_join_all(all).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = told {
            not_told(&error);
        }
    }

    /// Answers a request with the error number `errno`.
    pub(super) fn refuse(&self, unique: u64, entry: Option<FuseEntry>, errno: i32) {
        match entry {
            Some(entry) => entry.answer(&out_header(unique, errno, 0), &[]),
            None => self.channel.reply_error(unique, errno),
        }
    }
}

/// The way a request came.
pub(super) enum RequestOrigin<'a> {
    /// Through `/dev/fuse`: the inbox that contains it.
    Read(&'a mut FuseInbox),
    /// Through the ring, in an entry.
    Fetched(ReceivedEntry<'a>),
}

/// Counts an entry of the ring among those whose requests wait for the kernel, until it is dropped.
struct WaitingEntry<'a>(&'a Cell<usize>);

impl WaitingEntry<'_> {
    fn new(count: &Cell<usize>) -> WaitingEntry<'_> {
        count.set(count.get() + 1);
        WaitingEntry(count)
    }
}

impl Drop for WaitingEntry<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

fn not_told(error: &io::Error) {
    tracing::warn!(%error, "cannot invalidate the kernel's cache of a file");
}

/// A received request. It must be either answered at once or [begun](IncomingRequest::begin).
pub struct IncomingRequest<'a> {
    pub(super) connection: &'a Rc<FuseConnection>,
    pub(super) admission: AdmittedRequest<'a>,
    pub(super) came: RequestOrigin<'a>,
    pub(super) unique: u64,
}

impl IncomingRequest<'_> {
    fn entry(self) -> Option<FuseEntry> {
        match self.came {
            RequestOrigin::Read(..) => None,
            RequestOrigin::Fetched(entry) => Some(entry.entry),
        }
    }

    /// Answers the request with `payload`.
    pub fn reply(self, payload: &[u8]) {
        let (connection, unique) = (self.connection, self.unique);
        connection.reply(unique, self.entry(), payload);
    }

    /// Answers the request with the error number `errno`.
    pub fn refuse(self, errno: i32) {
        let (connection, unique) = (self.connection, self.unique);
        connection.refuse(unique, self.entry(), errno);
    }

    /// Waits for memory for `len` bytes, which other requests will return.
    pub async fn lease(&self, len: usize) -> BudgetLease {
        match &self.came {
            RequestOrigin::Read(inbox) => inbox.lease(len).await,
            RequestOrigin::Fetched(entry) => entry.lease(len).await,
        }
    }

    /// Waits for memory, and returns the first `len` bytes of the request's data with their lease.
    pub async fn data(&mut self, len: usize) -> (Buf, BudgetLease) {
        match &mut self.came {
            RequestOrigin::Read(inbox) => inbox.data(len).await,
            RequestOrigin::Fetched(entry) => entry.data(&self.connection.memory, len).await,
        }
    }

    /// Begins the request, to be answered later: polls `answer` at once, and makes it a task if it is then still
    /// pending.
    pub fn begin<F: Future<Output = ()> + 'static>(self, answer: impl FnOnce(ActiveRequest) -> F) {
        let connection = Rc::clone(self.connection);
        let entry = match self.came {
            RequestOrigin::Read(..) => None,
            RequestOrigin::Fetched(entry) => Some(entry.entry),
        };
        let underway = ActiveRequest {
            unique: self.unique,
            entry: Cell::new(entry),
            place: Cell::new(Some(self.admission.keep())),
            began: connection.rt.now(),
            connection,
        };
        let rt = underway.connection.rt.clone();
        start(&rt, answer(underway));
    }
}

/// A request that was begun. It counts as under way until it is dropped.
///
/// Some requests must notify the kernel before they are answered. The kernel may process a notification only after it
/// has got answers to other requests, because it waits for pages that are being read. So a request that waits for the
/// kernel returns its place among those under way. Otherwise such requests could occupy all places, and no read would
/// be accepted. An entry of the ring cannot be returned that early, so the wait is short if few entries are left.
pub struct ActiveRequest {
    connection: Rc<FuseConnection>,
    unique: u64,
    /// The entry that the request came in, which must carry the answer.
    entry: Cell<Option<FuseEntry>>,
    /// The request's place among those under way, until the request waits for the kernel.
    place: Cell<Option<RequestLoad>>,
    began: Instant,
}

impl ActiveRequest {
    /// Returns a buffer of `len` bytes, which the caller has leased.
    pub fn buffer(&self, len: usize) -> BufMut {
        self.connection.memory.take(len)
    }

    /// Returns the flags agreed on with the kernel: see [`init_flag`](crate::codec::init_flag).
    pub fn agreed(&self) -> u64 {
        self.connection.agreed.get()
    }

    /// Returns the executor's time.
    pub fn now(&self) -> Instant {
        self.connection.rt.now()
    }

    /// Returns the time since the request was begun.
    pub fn took(&self) -> Duration {
        self.connection.rt.now().since(self.began)
    }

    /// Answers the request with `payload`.
    pub fn reply(&self, payload: &[u8]) {
        let entry = self.entry.take();
        self.connection.reply(self.unique, entry, payload);
    }

    /// Invalidates the kernel's caches of files, and waits for the end of the invalidation. Must not be awaited before
    /// the answer to a request that holds pages of these files: a read, or a write of a part of a page. If the request
    /// is in an entry of the ring and many such requests wait, the wait is limited to 20 ms; the kernel finishes the
    /// invalidation soon after.
    pub async fn forget(&self, stale: &[StaleCache]) {
        self.wait_for(stale, self.connection.told(stale)).await;
    }

    /// Waits until `told` is done, or until a time limit if few entries are left.
    async fn wait_for(&self, stale: &[StaleCache], told: impl Future<Output = ()>) {
        self.set_aside();
        let waiting = &self.connection.waiting_entries;
        let Some(entry) = self.entry.take() else {
            return told.await;
        };
        self.entry.set(Some(entry));
        let _waits = WaitingEntry::new(waiting);
        // A notification about attributes is always processed soon.
        let is_soon = stale.iter().all(|stale| stale.bytes.is_none());
        if is_soon || waiting.get() <= WAITING_ENTRIES_MAX {
            return told.await;
        }
        let told = self.connection.rt.timeout(ENTRY_PATIENCE, told);
        let _ = told.await;
    }

    /// Like [`ActiveRequest::forget`], and drops `kept` when the invalidation is really complete.
    pub async fn forget_keeping<T: 'static>(&self, stale: &[StaleCache], kept: T) {
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

    /// Like [`ActiveRequest::forget`], with a time limit. Returns true if the invalidation is complete; otherwise it
    /// completes later.
    pub async fn forget_within(&self, stale: &[StaleCache], patience: Duration) -> bool {
        self.set_aside();
        let told = self
            .connection
            .rt
            .timeout(patience, self.connection.told(stale));
        told.await.is_ok()
    }

    /// Like [`ActiveRequest::forget`], without waiting.
    pub fn forget_later(&self, stale: &[StaleCache]) {
        let connection = &self.connection;
        let notifier = &connection.notifier;
        if let Err(error) = notifier.forget_later(&connection.channel, stale) {
            not_told(&error);
        }
    }

    /// Returns the request's place, because the request waits for the kernel.
    fn set_aside(&self) {
        if let Some(place) = self.place.take() {
            self.connection.under_way.set_aside(place);
        }
    }

    /// Answers the request with the error number `errno`.
    pub fn refuse(&self, errno: i32) {
        let entry = self.entry.take();
        self.connection.refuse(self.unique, entry, errno);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        // A request in an entry is answered in any case; otherwise the kernel would lose the entry for ever.
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
