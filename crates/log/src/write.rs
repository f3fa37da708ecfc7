//! The waiting around the state: appending, flushing, the superblock's word on gaps.
//!
//! Records are written by the group commit that all logs of segments share
//! ([`forebay_segments::commit`]); [`Placing`] looks at its writes and says where records go. The *announcer*
//! has the superblock say that there may be gaps.

mod placing;

use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::Device;
use forebay_rt::{Lock, Rt, Task};
use forebay_segments::{Commit, CommitWorkers, Composer, Gathering, LogError, LogStats, OnFailure};
use forebay_units::{RecordSeq, Sector, SegmentSeq};

use crate::format::{RangeKind, Superblock, VolumeId};
use crate::gaps::Gaps;
use crate::ring::{Addr, RingGeometry};
use crate::state::State;
use crate::state::copies::CopyStates;
use placing::Placing;

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

pub(crate) struct Inner {
    pub(crate) commit: Rc<Commit<State, Placing>>,
    pub(crate) superblock: RefCell<Superblock>,
    pub(crate) superblock_turn: Rc<Lock>,
    pub(crate) copies: CopyStates,
}

/// An open log. Clones are handles on the same log.
#[derive(Clone)]
pub struct Log {
    pub(crate) inner: Rc<Inner>,
}

/// The log's background work; stops when dropped.
pub struct Workers {
    _commit: CommitWorkers,
    _announcer: Task<()>,
}

impl Log {
    pub(crate) fn new(
        rt: Rt,
        device: Rc<dyn Device>,
        options: LogOptions,
        state: State,
        superblock: Superblock,
    ) -> (Log, Workers) {
        let placing = Placing::new(options.gaps);
        let gathering = Gathering::after(options.max_delay);
        let (commit, workers) = Commit::new(
            rt.clone(),
            device,
            gathering,
            OnFailure::Latch,
            state,
            placing,
        );
        let inner = Rc::new(Inner {
            commit,
            superblock: RefCell::new(superblock),
            superblock_turn: Rc::default(),
            copies: CopyStates::new(),
        });
        let workers = Workers {
            _commit: workers,
            _announcer: rt.spawn(announcer(Rc::clone(&inner))),
        };
        (Log { inner }, workers)
    }

    pub(crate) fn state(&self) -> Ref<'_, State> {
        self.inner.commit.composer()
    }

    pub(crate) fn state_mut(&self) -> RefMut<'_, State> {
        self.inner.commit.composer_mut()
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
        self.inner.commit.stats()
    }

    /// The failure that is latched, if there is one.
    pub fn failure(&self) -> Option<LogError> {
        self.inner.commit.failure()
    }

    /// Waits until the log fails, which it may never do.
    pub async fn failed(&self) -> LogError {
        self.inner.commit.failed().await
    }

    /// Makes everybody who waits for progress look again.
    pub fn notify(&self) {
        self.inner.commit.notify();
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
        self.state().stable()
    }

    /// The newest durable record, and the time since which it is known to be durable.
    pub fn newest_stable(&self) -> (RecordSeq, forebay_rt::Instant) {
        self.inner.commit.newest_stable()
    }

    /// Resolves when a record becomes durable, or the log fails or is stopped. The caller must take the listener before it
    /// looks at [`Log::newest_stable`].
    pub fn durable(&self) -> forebay_rt::Listener<'_> {
        self.inner.commit.durable()
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
        self.inner.commit.progress()
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
        self.inner.commit.appended(&mut state, together);
        out
    }

    /// Returns when every record up to `target` is durable.
    ///
    /// # Errors
    /// If the log has failed.
    pub async fn flush(&self, target: RecordSeq) -> Result<(), LogError> {
        self.inner.commit.flush(target).await
    }

    /// Returns when the device has every record up to `target`, perhaps only in its cache: a process
    /// after this one finds them, unless the power goes first.
    ///
    /// # Errors
    /// If the log has failed.
    pub async fn hand_over(&self, target: RecordSeq) -> Result<(), LogError> {
        self.inner.commit.hand_over(target).await
    }

    /// Ends the open segment, so that it can be destaged once it is durable.
    pub fn seal(&self) {
        let mut state = self.state_mut();
        state.seal();
        let stable = state.stable();
        state.set_stable(stable);
        drop(state);
        self.inner.commit.has_work();
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

/// Has the superblock say that there may be gaps, once one is wanted; only then there are any. A worker, so
/// that no superblock is written once the log is let go of.
async fn announcer(inner: Rc<Inner>) {
    inner.commit.watcher().wanted().await;
    let log = Log { inner };
    // Where this fails the log has failed, and leaves no gaps any more.
    let _ = log
        .update_superblock(|superblock| superblock.gaps = true)
        .await;
}
