//! A volume in use: its shared state, and its interface for clients.

use std::cell::{Cell, Ref, RefCell};
use std::fmt::Display;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, Durability};
use forebay_placement::placement::{FillLevel, Placement, PolicyFact, Tuner};
use forebay_rt::{CoopBudget, Event, Lock, Rt, Task};
use forebay_segment_log::{
    CommitPipeline, CommitWorkers, DeviceFault, LogStats, RecordComposer as _,
};
use forebay_units::{RecordSeq, SECTOR_BYTES, Sector};

use crate::checkpoint_queue::CheckpointQueue;
use crate::checks::ChecksumCache;
use crate::error::SpaceError;
use crate::format::SpaceSuperblock;
use crate::handles::StreamHandles;
use crate::homes::InPlaceWrites;
use crate::meta::CheckpointParts;
use crate::options::SpaceSettings;
use crate::pacing::WriterPacing;
use crate::prepared::prepare_to_unmap;
use crate::room::SpaceBudget;
use crate::stats::SpaceStats;
use crate::still::StillnessState;
use crate::store::{SegmentStore, read_checked};
use crate::streams::SegmentStreams;
use forebay_extent_map::NODE_BYTES;
use forebay_extent_map::{ExtentMap, NeededNode, NodeLoadError, RangePins};

pub(crate) struct SpaceInner {
    pub(crate) rt: Rt,
    pub(crate) device: Rc<dyn Device>,
    pub(crate) store: Rc<dyn SegmentStore>,
    pub(crate) options: SpaceSettings,
    pub(crate) commit: Rc<CommitPipeline<SegmentStreams, StreamHandles>>,
    pub(crate) map: RefCell<ExtentMap>,
    pub(crate) placement: RefCell<Box<dyn Placement>>,
    /// Observations for the choice of the placement.
    pub(crate) tuner: RefCell<Tuner>,
    /// True if the volume changes its placement when another placement is expected to cost less.
    pub(crate) auto: Cell<bool>,
    /// Held by the task that changes the placement.
    pub(crate) tune_turn: Rc<Lock>,
    /// Signals that enough was written to reconsider the placement.
    pub(crate) tune_asked: Event,
    /// Fill level at the last report to the placement.
    pub(crate) fill_told: Cell<Option<FillLevel>>,
    pub(crate) pacing: RefCell<WriterPacing>,
    /// Blocks that wait for a write in place.
    pub(crate) homes: RefCell<InPlaceWrites>,
    pub(crate) home_asked: Event,
    /// The superblock as last written. The generation can be that of a failed write.
    pub(crate) superblock: RefCell<SpaceSuperblock>,
    /// Held while copies of the superblock are written.
    pub(crate) superblock_turn: Rc<Lock>,
    /// The fault that prevents writes of superblocks. The device can accept records meanwhile, which ends the fault
    /// recorded in `commit`.
    pub(crate) superblock_fault: RefCell<Option<DeviceFault>>,
    /// The fault that prevents the cleaner from emptying segments. Writers that wait for segments get an error
    /// eventually.
    pub(crate) cleaner_fault: RefCell<Option<DeviceFault>>,
    /// The fault that prevents the reaping of detached subtrees. Writers that wait for the reaper get an error
    /// eventually.
    pub(crate) reaper_fault: RefCell<Option<DeviceFault>>,
    pub(crate) checks: RefCell<ChecksumCache>,
    /// The newest checkpoint beside nodes. It is live until a later checkpoint replaces it.
    pub(crate) meta: RefCell<CheckpointParts>,
    /// Batches that wait for free space are queued here.
    pub(crate) admission: Rc<Lock>,
    /// Counts appended bytes, to let other tasks run after each portion.
    pub(crate) portions: CoopBudget,
    /// Held while a checkpoint is made.
    pub(crate) checkpoint_turn: Rc<Lock>,
    /// Requests for checkpoints whose callers wait.
    pub(crate) checkpoints: CheckpointQueue,
    /// True if a checkpoint was requested without waiting for it.
    pub(crate) checkpoint_wanted: Cell<bool>,
    pub(crate) checkpoint_asked: Event,
    /// Signals that a batch waits for free space, or that free space is short.
    pub(crate) clean_asked: Event,
    /// True if segments without live data may be reused: a checkpoint of this attach is valid.
    pub(crate) may_reuse: Cell<bool>,
    /// Signals that free segments may have to be discarded.
    pub(crate) discard_asked: Event,
    /// Signals that a subtree was detached from the map.
    pub(crate) reap_asked: Event,
    /// Entries that the newest checkpoint does not cover.
    pub(crate) entries_since: Cell<u64>,
    /// Bytes written since the cut of the newest checkpoint, without the writes of checkpoints.
    pub(crate) written_since: Cell<u64>,
    /// True if the volume is about to be closed. The cleaner then rests.
    pub(crate) closing: Cell<bool>,
    /// Held while the device must not change, for a copy of it.
    pub(crate) still: StillnessState,
    pub(crate) stats: RefCell<SpaceStats>,
}

/// A volume in use. Clones are handles of the same volume.
#[derive(Clone)]
pub struct Space {
    pub(crate) inner: Rc<SpaceInner>,
}

/// Background tasks of a volume. They stop when dropped.
pub struct SpaceWorkers {
    pub(crate) _commit: CommitWorkers,
    pub(crate) _tasks: Vec<Task<()>>,
}

/// Capacity of a volume, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SpaceCapacity {
    /// All segments.
    pub total: u64,
    /// Mapped data.
    pub mapped: u64,
    /// True if trimmed sectors still count as mapped. A write that lacks space then waits for the reaper, and is not
    /// refused.
    pub is_reaping: bool,
    /// Maximum of mapped data, even if all further data comes in fragments of one sector.
    pub mappable: u64,
    /// Maximum of mapped data if all further data comes in blocks of 4 KiB.
    pub mappable_in_blocks: u64,
    /// Preallocated bytes that are not mapped yet: see [`crate::Batch::preallocate`].
    pub preallocated: u64,
    /// Segments without live data.
    pub unused: u64,
    /// Garbage in used segments, which the cleaner can reclaim.
    pub reclaimable: u64,
}

impl Space {
    /// Returns the sectors of the space, mapped or not.
    pub fn sectors(&self) -> u64 {
        self.inner.superblock.borrow().space_sectors
    }

    /// Returns the superblock as last written. Its generation can be that of a failed write.
    pub fn superblock(&self) -> Ref<'_, SpaceSuperblock> {
        self.inner.superblock.borrow()
    }

    /// Returns the current failure of the volume, if any: the device fails and is tried again, or the volume was
    /// stopped.
    pub fn failure(&self) -> Option<SpaceError> {
        let failed = self.inner.commit.failure().map(SpaceError::Failed);
        failed.or_else(|| self.inner.failing(Duration::ZERO))
    }

    /// Returns the options.
    pub fn options(&self) -> &SpaceSettings {
        &self.inner.options
    }

    /// Returns the number of segments for each segment that is kept free of data, in addition to the needs of the
    /// cleaner and of checkpoints.
    pub fn spare_part(&self) -> u64 {
        self.inner.commit.composer().table.spare_part()
    }

    /// Returns the memory that the map takes, in bytes.
    pub fn map_memory(&self) -> usize {
        self.inner.map.borrow().memory()
    }

    /// Returns counters of the writes to the device.
    pub fn log_stats(&self) -> LogStats {
        self.inner.commit.stats()
    }

    /// Returns the facts that the placement reports.
    pub fn facts(&self) -> Vec<PolicyFact> {
        self.inner.placement.borrow().describe()
    }

    /// Returns the numbers of full segments by utilisation in tenths: the first number for utilisation below one tenth,
    /// the eleventh for fully utilised segments.
    pub fn histogram(&self) -> [u32; 11] {
        self.inner.commit.composer().table.histogram()
    }

    /// Returns the numbers of openings of the least and the most worn segment.
    pub fn wear(&self) -> (u32, u32) {
        self.inner.commit.composer().table.wear()
    }

    /// Returns the counters of the volume.
    pub fn stats(&self) -> SpaceStats {
        self.inner.stats.borrow().clone()
    }

    /// Returns the capacity.
    pub fn capacity(&self) -> SpaceCapacity {
        let streams = self.inner.commit.composer();
        let layout = streams.layout;
        let segment = u64::from(layout.segment_bytes);
        let total = segment * u64::from(layout.segment_count);
        let unused = streams.table.unused() as u64 * segment;
        let live = streams.table.live() * SECTOR_BYTES;
        let map = self.inner.map.borrow();
        let room = SpaceBudget::of(&streams, &map);
        SpaceCapacity {
            total,
            mapped: map.mapped_sectors() * SECTOR_BYTES,
            is_reaping: map.detached() > 0,
            mappable: room.mappable * SECTOR_BYTES,
            mappable_in_blocks: room.mappable_in_blocks * SECTOR_BYTES,
            preallocated: streams.preallocated * SECTOR_BYTES,
            unused,
            reclaimable: (total - unused).saturating_sub(live),
        }
    }

    /// Adds sectors that batches preallocated before the volume was opened. The volume does not record preallocations:
    /// the client that records them must call this first.
    pub fn restore_preallocated(&self, sectors: u64) {
        self.inner.commit.composer_mut().preallocated += sectors;
    }

    /// Describes the states of segments and the reserves in words, for a volume with waiting requests.
    pub fn explain(&self) -> String {
        let streams = self.inner.commit.composer();
        let map = self.inner.map.borrow();
        let room = SpaceBudget::of(&streams, &map);
        format!("{:?}; {}", room, streams.table.describe())
    }

    /// Makes all batches durable that completed before this call.
    ///
    /// # Errors
    /// The volume has failed.
    pub async fn flush(&self) -> Result<(), SpaceError> {
        let target = {
            let mut streams = self.inner.commit.composer_mut();
            match streams.open() {
                Some(_) => streams.close(),
                None => streams.last_record(),
            }
        };
        self.inner.commit.has_work();
        self.inner.flush(target).await
    }

    /// Returns the first range of mapped sectors in `range`.
    ///
    /// # Errors
    /// The map cannot be read.
    pub async fn next_mapped(&self, range: Range<u64>) -> Result<Option<Range<u64>>, SpaceError> {
        let next = self.inner.loading(|map| map.next_mapped(range.clone()));
        next.await
    }

    /// Returns the mapped sectors in the part of `range` that one leaf of the map covers, and the end of this part.
    ///
    /// # Errors
    /// The map cannot be read.
    pub async fn mapped_in_leaf(&self, range: Range<u64>) -> Result<(u64, u64), SpaceError> {
        let counted = self.inner.loading(|map| map.mapped_in_leaf(range.clone()));
        counted.await
    }

    /// Returns the mapped sectors in `range`. Concurrent changes may be counted or not.
    ///
    /// # Errors
    /// The map cannot be read.
    pub async fn mapped_sectors(&self, range: Range<u64>) -> Result<u64, SpaceError> {
        let (mut at, mut sectors) = (range.start, 0);
        while at < range.end {
            let (found, end) = self.mapped_in_leaf(at..range.end).await?;
            sectors += found;
            at = end;
        }
        Ok(sectors)
    }
}

impl SpaceInner {
    /// Reads a node of the map.
    pub(crate) async fn load(&self, need: &NeededNode) -> Result<(), SpaceError> {
        let (slot, offset) = {
            let mut streams = self.commit.composer_mut();
            let slot = streams.table.slot_at(need.place);
            let slot = slot.ok_or(SpaceError::Node(need.place, NodeLoadError::Stale))?;
            streams.table.pin(slot);
            (slot, u64::from(streams.layout.offset_of(need.place)))
        };
        let range = offset..offset + NODE_BYTES as u64;
        let load = |bytes: &[u8]| self.map.borrow_mut().load(need, bytes);
        let loaded = read_checked(&*self.store, slot, range, load).await;
        self.unpin(slot);
        self.stats.borrow_mut().node_reads += 1;
        loaded?.map_err(|error| SpaceError::Node(need.place, error))
    }

    /// Loads the nodes of the map for a range, and pins them in memory.
    pub(crate) async fn prepare(
        &self,
        sector: Sector,
        sectors: u64,
        pins: &mut RangePins,
    ) -> Result<(), SpaceError> {
        let range = sector.0..sector.0 + sectors;
        self.loading(|map| map.prepare(range.clone(), pins)).await
    }

    /// Loads and pins the nodes of the map that are needed to unmap a range.
    pub(crate) async fn prepare_to_unmap(
        &self,
        sector: Sector,
        sectors: u64,
        huge: u64,
        pins: &mut RangePins,
    ) -> Result<(), SpaceError> {
        self.loading(|map| prepare_to_unmap(map, sector, sectors, huge, pins))
            .await
    }

    /// Performs an operation on the map, and reads the nodes that it needs.
    pub(crate) async fn loading<T>(
        &self,
        mut attempt: impl FnMut(&mut ExtentMap) -> Result<T, NeededNode>,
    ) -> Result<T, SpaceError> {
        loop {
            let tried = attempt(&mut self.map.borrow_mut());
            match tried {
                Ok(done) => return Ok(done),
                Err(need) => self.load(&need).await?,
            }
        }
    }

    pub(crate) fn unpin(&self, slot: crate::geometry::SegmentSlot) {
        let free = self.commit.composer_mut().table.unpin(slot);
        if free {
            self.commit.notify();
        }
    }

    /// Waits until every record up to `target` is durable. If the device fails for longer than requests wait, the
    /// request gets an error, but the records are still written when the device recovers.
    pub(crate) async fn flush(&self, target: RecordSeq) -> Result<(), SpaceError> {
        let patience = self.options.patience;
        loop {
            let flushed = self.rt.timeout(patience, self.commit.flush(target)).await;
            match (flushed, self.failing(Duration::ZERO)) {
                (Ok(flushed), _) => return Ok(flushed?),
                (Err(_), Some(error)) => return Err(error),
                (Err(_), None) => {}
            }
        }
    }

    /// Returns the error for requests, if the device has been failing for longer than `patience`.
    pub(crate) fn failing(&self, patience: Duration) -> Option<SpaceError> {
        let superblock = self.superblock_fault.borrow().clone();
        let faults = self.commit.fault().into_iter().chain(superblock);
        let fault = faults.min_by_key(|fault| fault.since)?;
        let lasted = self.rt.now().since(fault.since);
        let cause = fault.cause;
        (lasted >= patience).then_some(SpaceError::Failing { lasted, cause })
    }

    /// Returns the error for requests that wait for space, if reads that free space fail, or another fault is present.
    pub(crate) fn failing_to_make_space(&self) -> Option<SpaceError> {
        let faults = [&self.cleaner_fault, &self.reaper_fault];
        let mut faults = faults.iter().filter_map(|fault| fault.borrow().clone());
        self.failing(Duration::ZERO).or_else(|| {
            let DeviceFault { since, cause } = faults.next()?;
            let lasted = self.rt.now().since(since);
            Some(SpaceError::Failing { lasted, cause })
        })
    }

    /// Records a failure of the device in `fault`.
    pub(crate) fn note_fault(&self, fault: &RefCell<Option<DeviceFault>>, error: &dyn Display) {
        let mut fault = fault.borrow_mut();
        let since = fault.as_ref().map_or(self.rt.now(), |fault| fault.since);
        let cause = error.to_string().into();
        *fault = Some(DeviceFault { since, cause });
    }

    /// Counts appended bytes of data.
    pub(crate) fn wrote(&self, bytes: u64) {
        self.written_since.set(self.written_since.get() + bytes);
    }

    pub(crate) fn ask_for_checkpoint(&self) {
        if !self.checkpoint_wanted.replace(true) {
            self.checkpoint_asked.notify_all();
        }
    }
}

/// Returns true if a write must be durable when it completes.
pub(crate) fn is_durable(durability: Durability) -> bool {
    durability == Durability::Fua
}
