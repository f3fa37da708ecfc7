//! Waiting operations on the state: appending, flushing, and announcing rotational offsets in the superblock.
//!
//! The group commit shared by all logs of segments ([`forebay_segment_log::commit`]) writes the records. [`OffsetPlanner`]
//! observes these writes and decides the place of records. The *announcer* records in the superblock that offsets may
//! exist.

mod placing;

use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::Device;
use forebay_rt::{Lock, Rt, Task};
use forebay_segment_log::{
    CommitPipeline, CommitWorkers, GatherLimits, LogError, LogStats, OnFailure, RecordComposer,
};
use forebay_units::{RecordSeq, Sector, SegmentSeq};

use crate::format::{RangeKind, RingSuperblock, VolumeId};
use crate::gaps::OffsetPolicy;
use crate::ring::{LogAddr, RingGeometry};
use crate::state::RingState;
use crate::state::copies::SuperblockCopyStates;
use placing::OffsetPlanner;

/// Options of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Maximum delay before appended data is sent to the device.
    pub max_delay: Duration,
    /// Policy of rotational offsets between records.
    pub gaps: OffsetPolicy,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            max_delay: Duration::from_millis(50),
            gaps: OffsetPolicy::default(),
        }
    }
}

pub(crate) struct LogShared {
    pub(crate) commit: Rc<CommitPipeline<RingState, OffsetPlanner>>,
    pub(crate) superblock: RefCell<RingSuperblock>,
    pub(crate) superblock_turn: Rc<Lock>,
    pub(crate) copies: SuperblockCopyStates,
}

/// An open log. Clones are handles to the same log.
#[derive(Clone)]
pub struct RingLog {
    pub(crate) inner: Rc<LogShared>,
}

/// Background tasks of the log. They stop when this value is dropped.
pub struct LogWorkers {
    _commit: CommitWorkers,
    _announcer: Task<()>,
}

impl RingLog {
    pub(crate) fn new(
        rt: Rt,
        device: Rc<dyn Device>,
        options: LogOptions,
        state: RingState,
        superblock: RingSuperblock,
    ) -> (RingLog, LogWorkers) {
        let placing = OffsetPlanner::new(options.gaps);
        let gathering = GatherLimits::after(options.max_delay);
        let (commit, workers) = CommitPipeline::new(
            rt.clone(),
            device,
            gathering,
            OnFailure::Latch,
            state,
            placing,
        );
        let inner = Rc::new(LogShared {
            commit,
            superblock: RefCell::new(superblock),
            superblock_turn: Rc::default(),
            copies: SuperblockCopyStates::new(),
        });
        let workers = LogWorkers {
            _commit: workers,
            _announcer: rt.spawn(announcer(Rc::clone(&inner))),
        };
        (RingLog { inner }, workers)
    }

    pub(crate) fn state(&self) -> Ref<'_, RingState> {
        self.inner.commit.composer()
    }

    pub(crate) fn state_mut(&self) -> RefMut<'_, RingState> {
        self.inner.commit.composer_mut()
    }

    /// Returns the geometry of the ring.
    pub fn ring(&self) -> RingGeometry {
        self.state().ring
    }

    /// Returns the volume to which the log belongs.
    pub fn volume(&self) -> VolumeId {
        self.state().volume
    }

    /// Returns the superblock as last written.
    pub fn superblock(&self) -> Ref<'_, RingSuperblock> {
        self.inner.superblock.borrow()
    }

    /// Returns statistics of the log's work so far.
    pub fn stats(&self) -> LogStats {
        self.inner.commit.stats()
    }

    /// Returns the latched failure, if any.
    pub fn failure(&self) -> Option<LogError> {
        self.inner.commit.failure()
    }

    /// Waits until the log fails, which may never happen.
    pub async fn failed(&self) -> LogError {
        self.inner.commit.failed().await
    }

    /// Wakes all tasks that wait for progress.
    pub fn notify(&self) {
        self.inner.commit.notify();
    }

    /// Returns the oldest segment still needed.
    pub fn tail(&self) -> SegmentSeq {
        self.state().tail
    }

    /// Returns the segment after the newest one.
    pub fn head(&self) -> SegmentSeq {
        self.state().next_segment
    }

    /// Returns the number of segments without records.
    pub fn free_segments(&self) -> u64 {
        self.state().free_segments()
    }

    /// Returns the oldest segment that may not be destaged yet: the segment is still in memory, or has a record that is
    /// not known to be durable.
    pub fn destage_limit(&self) -> SegmentSeq {
        self.state().destage_limit()
    }

    /// Returns the record that will be opened next.
    pub fn next_record(&self) -> RecordSeq {
        self.state().next_record
    }

    /// Returns the newest record, open or closed.
    pub fn last_record(&self) -> RecordSeq {
        self.next_record().prev()
    }

    /// Returns the newest record known to be durable.
    pub fn stable(&self) -> RecordSeq {
        self.state().stable()
    }

    /// Returns the newest durable record, and the time since which it has been known to be durable.
    pub fn newest_stable(&self) -> (RecordSeq, forebay_rt::Instant) {
        self.inner.commit.newest_stable()
    }

    /// Resolves when a record becomes durable, or when the log fails or stops. The caller must take the listener before
    /// it reads [`RingLog::newest_stable`].
    pub fn durable(&self) -> forebay_rt::EventListener<'_> {
        self.inner.commit.durable()
    }

    /// Returns the first record of a segment.
    pub fn first_record(&self, segment: SegmentSeq) -> RecordSeq {
        self.state().first_record(segment)
    }

    /// Returns the memory used by segments that are not on the device yet, in bytes.
    pub fn ram_bytes(&self) -> u64 {
        self.state().ram_bytes()
    }

    /// Returns true if a write of `bytes` in at most `entries` entries can be appended now, with `reserve` segments
    /// left free.
    pub fn has_room(&self, bytes: u64, entries: u64, reserve: u64) -> bool {
        self.state().has_room(bytes, entries, reserve)
    }

    /// Returns true if a write of this size must wait until the tail moves.
    pub fn lacks_segments(&self, bytes: u64, entries: u64, reserve: u64) -> bool {
        self.state().lacks_segments(bytes, entries, reserve)
    }

    /// Resolves at the next change: data was written, became durable or was freed, or the log failed. The caller must
    /// take the listener before it checks its condition.
    pub fn progress(&self) -> forebay_rt::EventListener<'_> {
        self.inner.commit.progress()
    }

    /// Appends the entries that `compose` adds, as one group. The caller must have checked [`RingLog::has_room`].
    pub fn append<T>(&self, compose: impl FnOnce(&mut GroupAppender<'_>) -> T) -> T {
        self.append_placed(false, compose)
    }

    /// Appends like [`RingLog::append`]. The caller will flush the entries at once.
    pub fn append_to_flush<T>(&self, compose: impl FnOnce(&mut GroupAppender<'_>) -> T) -> T {
        self.append_placed(true, compose)
    }

    fn append_placed<T>(&self, soon: bool, compose: impl FnOnce(&mut GroupAppender<'_>) -> T) -> T {
        debug_assert!(
            !self.superblock().clean,
            "the superblock says that the log is empty"
        );
        let mut state = self.state_mut();
        self.inner.place_next(&mut state, soon);
        let leaves = state.leaves_segment();
        let out = compose(&mut GroupAppender { state: &mut state });
        state.drop_plan();
        state.end_group();
        // The summary of the segment that was left is written together with the record after it.
        let together = leaves && state.jobs_waiting() == 1;
        self.inner.commit.appended(&mut state, together);
        out
    }

    /// Waits until every record up to `target` is durable.
    ///
    /// # Errors
    /// If the log has failed.
    pub async fn flush(&self, target: RecordSeq) -> Result<(), LogError> {
        self.inner.commit.flush(target).await
    }

    /// Waits until the device has every record up to `target`, perhaps only in its cache. The records survive the
    /// process, but not a power failure.
    ///
    /// # Errors
    /// If the log has failed.
    pub async fn hand_over(&self, target: RecordSeq) -> Result<(), LogError> {
        self.inner.commit.hand_over(target).await
    }

    /// Ends the open segment, so that it can be destaged as soon as it is durable.
    pub fn seal(&self) {
        let mut state = self.state_mut();
        state.seal();
        let stable = state.stable();
        state.set_stable(stable);
        drop(state);
        self.inner.commit.has_work();
    }
}

/// Composer of one group; see [`RingLog::append`].
pub struct GroupAppender<'a> {
    state: &'a mut RingState,
}

impl GroupAppender<'_> {
    /// Appends data within one 4 KiB block; `crc` is its CRC32C. Returns the address of the data.
    pub fn data(&mut self, sector: Sector, bytes: &[u8], crc: u32) -> LogAddr {
        self.state.append_data(sector, bytes, crc)
    }

    /// Replaces data in the record being filled. Returns false if the record has no data with exactly this extent.
    pub fn overwrite(&mut self, addr: LogAddr, sector: Sector, bytes: &[u8], crc: u32) -> bool {
        self.state.overwrite(addr, sector, bytes, crc)
    }

    /// Appends a range without data. Returns the record that contains it.
    pub fn range(&mut self, kind: RangeKind, sector: Sector, sectors: u64) -> RecordSeq {
        self.state.append_range(kind, sector, sectors)
    }
}

/// Records in the superblock that offsets may exist, as soon as the policy wants one. The log leaves offsets only after
/// that. This is a worker, so that no superblock is written after the log is released.
async fn announcer(inner: Rc<LogShared>) {
    inner.commit.watcher().wanted().await;
    let log = RingLog { inner };
    // If the update fails, the log has failed and leaves no more offsets.
    let _ = log
        .update_superblock(|superblock| superblock.gaps = true)
        .await;
}
