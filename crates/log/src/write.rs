//! The waiting around the state: writing records, flushing, moving the tail.
//!
//! Five workers, in `write/workers.rs`. The *pump* keeps a few writes on the device while there are
//! composed records. The *ticker* composes the open record when it has waited `max_delay`. A *round*,
//! run while anyone waits for durability, composes, waits for the writes, and flushes the device once
//! for all of them. *Handing over*, while anyone waits until the device has something, composes as
//! soon as the device has little to do. The *announcer* has the superblock say that there may be gaps.

mod placing;
mod workers;

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::Device;
use forebay_rt::{Event, Instant, RangeLock, Rt, Task};
use forebay_units::{RecordSeq, Sector, SegmentSeq};

use crate::error::LogError;
use crate::format::{RangeKind, Superblock, VolumeId};
use crate::gaps::Gaps;
use crate::ring::{Addr, RingGeometry};
use crate::state::State;
use crate::state::copies::CopyStates;
use placing::{Placing, Write};
use workers::{announcer, hand_over, pump, round, ticker};

/// Writes kept on the device at once: enough that it never waits for us, few enough that records
/// grow while it works.
const JOBS_MAX: usize = 4;
/// A record up to this long, in bytes, that is all there is to make durable is written with FUA. Of a longer
/// one the flush after it is a small part, and a device may take its time for FUA.
const LONE_BYTES: usize = 64 << 10;
/// Writes on the device at which the next record leaves at once, if anybody waits for the device to have
/// it: one is under way while another gathers what comes meanwhile.
const HAND_OVER_JOBS: usize = 2;
/// While the device has nothing to do, a record leaves as soon as it is this long, in bytes.
const EAGER_BYTES: u32 = 256 << 10;

/// How a log is to behave.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// The longest that appended data waits before it is sent to the device.
    pub max_delay: Duration,
    /// Whether there may be gaps between records.
    pub gaps: Gaps,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            max_delay: Duration::from_millis(50),
            gaps: Gaps::default(),
        }
    }
}

/// What a log has done since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LogStats {
    /// Bytes written to segments, headers and padding included.
    pub bytes_written: u64,
    /// Device writes those took.
    pub writes: u64,
    /// Flushes of the log device.
    pub flushes: u64,
    /// Superblock updates.
    pub superblocks: u64,
}

pub(crate) struct Inner {
    pub(crate) rt: Rt,
    pub(crate) device: Rc<dyn Device>,
    options: LogOptions,
    state: RefCell<State>,
    pub(crate) superblock: RefCell<Superblock>,
    pub(crate) superblock_turn: Rc<RangeLock>,
    pub(crate) copies: CopyStates,
    /// There may be something for the pump to do.
    work: Event,
    /// The open record has a time at which it is closed.
    timed: Event,
    /// Something was written, became durable, was freed, or failed.
    pub(crate) progress: Event,
    /// Something became durable, or the log failed: what those wait for who wait for a flush.
    durable: Event,
    /// The device has written something, or the log failed: what those wait for who hand over.
    written: Event,
    failed: RefCell<Option<LogError>>,
    failure: Event,
    round: Cell<bool>,
    handing_over: Cell<bool>,
    /// Writes that are done and that no flush has covered.
    unflushed: Cell<u64>,
    placing: Placing,
    /// The open record and when the ticker closes it.
    deadline: Cell<Option<(RecordSeq, Instant)>>,
    stats: Cell<LogStats>,
}

/// An open log. Clones are handles on the same log.
#[derive(Clone)]
pub struct Log {
    pub(crate) inner: Rc<Inner>,
}

/// The log's background work; stops when dropped.
pub struct Workers {
    _tasks: [Task<()>; 3],
}

impl Log {
    pub(crate) fn new(
        rt: Rt,
        device: Rc<dyn Device>,
        options: LogOptions,
        state: State,
        superblock: Superblock,
    ) -> (Log, Workers) {
        let inner = Rc::new(Inner {
            rt: rt.clone(),
            device,
            options,
            state: RefCell::new(state),
            superblock: RefCell::new(superblock),
            superblock_turn: Rc::default(),
            copies: CopyStates::new(),
            work: Event::new(),
            timed: Event::new(),
            progress: Event::new(),
            durable: Event::new(),
            written: Event::new(),
            failed: RefCell::new(None),
            failure: Event::new(),
            round: Cell::new(false),
            handing_over: Cell::new(false),
            unflushed: Cell::new(0),
            placing: Placing::new(options.gaps),
            deadline: Cell::new(None),
            stats: Cell::default(),
        });
        let pump = rt.spawn(pump(Rc::clone(&inner)));
        let ticker = rt.spawn(ticker(Rc::clone(&inner)));
        let announcer = rt.spawn(announcer(Rc::clone(&inner)));
        (
            Log { inner },
            Workers {
                _tasks: [pump, ticker, announcer],
            },
        )
    }

    pub(crate) fn state(&self) -> Ref<'_, State> {
        self.inner.state.borrow()
    }

    pub(crate) fn state_mut(&self) -> RefMut<'_, State> {
        self.inner.state.borrow_mut()
    }

    /// The ring.
    pub fn ring(&self) -> RingGeometry {
        self.state().ring
    }

    /// Whose log this is.
    pub fn volume(&self) -> VolumeId {
        self.state().volume
    }

    /// The superblock as last written.
    pub fn superblock(&self) -> Ref<'_, Superblock> {
        self.inner.superblock.borrow()
    }

    /// What was done so far.
    pub fn stats(&self) -> LogStats {
        self.inner.stats.get()
    }

    /// The failure that is latched, if there is one.
    pub fn failure(&self) -> Option<LogError> {
        self.inner.failed.borrow().clone()
    }

    /// Waits until the log fails, which it may never do.
    pub async fn failed(&self) -> LogError {
        self.inner.failure.until(|| self.failure()).await
    }

    /// Makes everybody who waits for progress look again.
    pub fn notify(&self) {
        self.inner.progress.notify_all();
    }

    /// The oldest segment still needed.
    pub fn tail(&self) -> SegmentSeq {
        self.state().tail
    }

    /// The segment after the newest.
    pub fn head(&self) -> SegmentSeq {
        self.state().next_segment
    }

    /// Segments no record lies in.
    pub fn free_segments(&self) -> u64 {
        self.state().free_segments()
    }

    /// The oldest segment that may not be destaged yet: it is still in memory, or holds a record
    /// that is not known durable.
    pub fn destage_limit(&self) -> SegmentSeq {
        self.state().destage_limit()
    }

    /// The record that will be appended next.
    pub fn next_record(&self) -> RecordSeq {
        self.state().next_record
    }

    /// The newest record appended to, open or not.
    pub fn last_record(&self) -> RecordSeq {
        self.next_record().prev()
    }

    /// The newest record known durable.
    pub fn stable(&self) -> RecordSeq {
        self.state().stable
    }

    /// The record a segment begins with.
    pub fn first_record(&self, segment: SegmentSeq) -> RecordSeq {
        self.state().first_record(segment)
    }

    /// Bytes of memory that segments not yet on the device take.
    pub fn ram_bytes(&self) -> u64 {
        self.state().ram_bytes()
    }

    /// True if a write of `bytes` in at most `entries` pieces can be appended now, leaving `reserve`
    /// segments free.
    pub fn has_room(&self, bytes: u64, entries: u64, reserve: u64) -> bool {
        self.state().has_room(bytes, entries, reserve)
    }

    /// True if such a write has to wait for the tail to move.
    pub fn lacks_segments(&self, bytes: u64, entries: u64, reserve: u64) -> bool {
        self.state().lacks_segments(bytes, entries, reserve)
    }

    /// Resolves at the next change: something written, durable or freed, or the log failed. Take the
    /// listener before looking.
    pub fn progress(&self) -> forebay_rt::Listener<'_> {
        self.inner.progress.listen()
    }

    /// Appends what `compose` says, as one group. There must be room ([`Log::has_room`]).
    pub fn append<T>(&self, compose: impl FnOnce(&mut Appender<'_>) -> T) -> T {
        self.append_placed(false, compose)
    }

    /// As [`Log::append`], of what is to be flushed at once.
    pub fn append_to_flush<T>(&self, compose: impl FnOnce(&mut Appender<'_>) -> T) -> T {
        self.append_placed(true, compose)
    }

    fn append_placed<T>(&self, soon: bool, compose: impl FnOnce(&mut Appender<'_>) -> T) -> T {
        let mut state = self.state_mut();
        self.inner.place_next(&mut state, soon);
        let leaves = state.leaves_segment();
        let out = compose(&mut Appender { state: &mut state });
        state.drop_plan();
        state.end_group();
        // The summary of a segment that was left goes with the record behind it.
        let together = leaves && state.jobs_waiting() == 1;
        self.inner.after_append(&mut state, together);
        out
    }

    /// Returns when every record up to `target` is durable.
    ///
    /// # Errors
    /// If the log has failed.
    pub async fn flush(&self, target: RecordSeq) -> Result<(), LogError> {
        loop {
            // Listen before looking, so that nothing is missed.
            let durable = self.inner.durable.listen();
            if self.stable() >= target {
                return Ok(());
            }
            if let Some(failure) = self.failure() {
                return Err(failure);
            }
            self.inner.start_round();
            durable.await;
        }
    }

    /// Returns when the device has every record up to `target`, perhaps only in its cache: a process
    /// after this one finds them, unless the power goes first.
    ///
    /// # Errors
    /// If the log has failed.
    pub async fn hand_over(&self, target: RecordSeq) -> Result<(), LogError> {
        loop {
            let written = self.inner.written.listen();
            if self.state().handed_over() >= target {
                return Ok(());
            }
            if let Some(failure) = self.failure() {
                return Err(failure);
            }
            self.inner.start_hand_over();
            written.await;
        }
    }

    /// Ends the open segment, so that it can be destaged once it is durable.
    pub fn seal(&self) {
        let mut state = self.state_mut();
        state.seal();
        let stable = state.stable;
        state.set_stable(stable);
        drop(state);
        self.inner.work.notify_all();
    }
}

/// Composes one group; see [`Log::append`].
pub struct Appender<'a> {
    state: &'a mut State,
}

impl Appender<'_> {
    /// Appends a piece of data within one line; `crc` is its CRC32C. Says where it lies.
    pub fn data(&mut self, sector: Sector, bytes: &[u8], crc: u32) -> Addr {
        self.state.append_data(sector, bytes, crc)
    }

    /// Replaces a piece that lies in the record still being filled; false if it does not, with just
    /// this extent.
    pub fn overwrite(&mut self, addr: Addr, sector: Sector, bytes: &[u8], crc: u32) -> bool {
        self.state.overwrite(addr, sector, bytes, crc)
    }

    /// Appends a range without data. Says which record holds it.
    pub fn range(&mut self, kind: RangeKind, sector: Sector, sectors: u64) -> RecordSeq {
        self.state.append_range(kind, sector, sectors)
    }
}

impl Inner {
    pub(crate) fn fail(&self, cause: &str) -> LogError {
        let mut failed = self.failed.borrow_mut();
        let error = failed.get_or_insert_with(|| {
            tracing::error!(cause, "the log device failed");
            LogError(cause.into())
        });
        let error = error.clone();
        drop(failed);
        self.failure.notify_all();
        self.durable.notify_all();
        self.written.notify_all();
        self.progress.notify_all();
        error
    }

    fn has_failed(&self) -> bool {
        self.failed.borrow().is_some()
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut LogStats)) {
        let mut stats = self.stats.get();
        add(&mut stats);
        self.stats.set(stats);
    }

    /// With `together`, what waits to be written waits for the open record, if that is still open.
    fn after_append(self: &Rc<Self>, state: &mut State, together: bool) {
        if state.jobs_in_flight() == 0 && state.open_record_bytes() >= EAGER_BYTES {
            state.close_record();
        }
        let open = state.open_record_seq();
        let timed = self.deadline.get().map(|(record, _)| record);
        if open.is_some() && open != timed {
            let at = self.rt.now().plus(self.options.max_delay);
            self.deadline.set(open.map(|record| (record, at)));
            self.timed.notify_all();
        }
        // The open record is written when its time has come at the latest, and then what waits for it is, too.
        let waits = together && open.is_some();
        if state.has_jobs() && state.jobs_in_flight() < JOBS_MAX && !waits {
            self.work.notify_all();
        }
        if state.wants_flush() {
            self.start_round();
        }
    }

    /// Starts a round of making things durable, unless one runs.
    fn start_round(self: &Rc<Self>) {
        if !self.round.replace(true) {
            self.rt.spawn(round(Rc::clone(self))).detach();
        }
    }

    fn end_round(self: &Rc<Self>) {
        self.round.set(false);
        // Writers may all be waiting for this by now, so that none of them starts the next.
        let behind = self.state.borrow().wants_flush();
        if behind && !self.has_failed() {
            self.start_round();
        }
        self.durable.notify_all();
        self.progress.notify_all();
    }

    /// True if all that is not durable is in this one write, which was taken: then the device need make
    /// nothing else durable with it.
    fn is_lone(&self, write: &Write) -> bool {
        let state = self.state.borrow();
        let only = state.jobs_in_flight() == write.jobs().count() && !state.has_jobs();
        only && self.unflushed.get() == 0 && write.len() <= LONE_BYTES
    }

    /// Sends off what was appended, unless the device has enough to do. In a task, so that all who
    /// come at this moment go together.
    fn start_hand_over(self: &Rc<Self>) {
        let busy = self.state.borrow().jobs_in_flight() >= HAND_OVER_JOBS;
        if !busy && !self.handing_over.replace(true) {
            self.rt.spawn(hand_over(Rc::clone(self))).detach();
        }
    }
}
