//! A volume in use: what all its parts share, and what users may ask of it.

use std::cell::{Cell, Ref, RefCell};
use std::fmt::Display;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, Durability};
use forebay_placement::placement::{Fact, Placement, Tuner};
use forebay_rt::{Event, Lock, Portions, Rt, Task};
use forebay_segments::{Commit, CommitWorkers, Composer as _, DeviceFault, LogStats};
use forebay_units::{RecordSeq, SECTOR_BYTES, Sector};

use crate::checks::Checks;
use crate::error::SpaceError;
use crate::format::Superblock;
use crate::handles::Handles;
use crate::homes::Homes;
use crate::meta::Meta;
use crate::options::Options;
use crate::pacing::Pacing;
use crate::prepared::prepare_to_unmap;
use crate::room::Room;
use crate::stats::Stats;
use crate::store::{SegmentStore, read_checked};
use crate::streams::Streams;
use forebay_extents::NODE_BYTES;
use forebay_extents::{LoadError, Map, Need, Pins};

pub(crate) struct Inner {
    pub(crate) rt: Rt,
    pub(crate) device: Rc<dyn Device>,
    pub(crate) store: Rc<dyn SegmentStore>,
    pub(crate) options: Options,
    pub(crate) commit: Rc<Commit<Streams, Handles>>,
    pub(crate) map: RefCell<Map>,
    pub(crate) placement: RefCell<Box<dyn Placement>>,
    /// What is learnt for the choice of the placement.
    pub(crate) tuner: RefCell<Tuner>,
    /// The volume changes its placement where another is expected to cost less.
    pub(crate) auto: Cell<bool>,
    /// The placement is changed by one task at a time.
    pub(crate) tune_turn: Rc<Lock>,
    /// Enough was written for a look at the placement.
    pub(crate) tune_asked: Event,
    /// How many sectors were mapped when the placement was last told.
    pub(crate) fill_told: Cell<Option<u64>>,
    pub(crate) pacing: RefCell<Pacing>,
    /// What is to be written where it lay before.
    pub(crate) homes: RefCell<Homes>,
    pub(crate) home_asked: Event,
    /// The superblock as last written; the generation may be that of a write that failed.
    pub(crate) superblock: RefCell<Superblock>,
    /// Held while copies of the superblock are written.
    pub(crate) superblock_turn: Rc<Lock>,
    /// The fault that keeps superblocks from being written. The device may take records meanwhile, which ends the fault that
    /// `commit` knows.
    pub(crate) superblock_fault: RefCell<Option<DeviceFault>>,
    /// The fault that keeps the cleaner from emptying segments: writers that wait for segments get an error in the end.
    pub(crate) cleaner_fault: RefCell<Option<DeviceFault>>,
    /// The fault that keeps trimmed subtrees from being looked at: the same for who waits for that.
    pub(crate) reaper_fault: RefCell<Option<DeviceFault>>,
    pub(crate) checks: RefCell<Checks>,
    /// What the newest checkpoint wrote beside nodes: it is live until a later one replaces it.
    pub(crate) meta: RefCell<Meta>,
    /// Batches that wait for room stand in line here.
    pub(crate) admission: Rc<Lock>,
    /// Bytes appended between turns of everybody else.
    pub(crate) portions: Portions,
    /// Checkpoints are made one at a time.
    pub(crate) checkpoint_turn: Rc<Lock>,
    /// Somebody wants a checkpoint.
    pub(crate) checkpoint_wanted: Cell<bool>,
    pub(crate) checkpoint_asked: Event,
    /// Somebody waits for room, or there is less of it than there should be.
    pub(crate) clean_asked: Event,
    /// Segments in which nothing is live may be used again: a checkpoint counts that was made since the volume
    /// was taken up.
    pub(crate) may_reuse: Cell<bool>,
    /// Segments may be free that are to be discarded.
    pub(crate) discard_asked: Event,
    /// Something was detached from the map, to be looked at.
    pub(crate) reap_asked: Event,
    /// Entries that the newest checkpoint does not cover.
    pub(crate) entries_since: Cell<u64>,
    /// Bytes that were written since the newest checkpoint was cut, beside what checkpoints write.
    pub(crate) written_since: Cell<u64>,
    /// The volume is about to be closed: the cleaner rests.
    pub(crate) closing: Cell<bool>,
    pub(crate) stats: RefCell<Stats>,
}

/// A volume in use. Clones are handles on the same one.
#[derive(Clone)]
pub struct Space {
    pub(crate) inner: Rc<Inner>,
}

/// A volume's background work; stops when dropped.
pub struct Workers {
    pub(crate) _commit: CommitWorkers,
    pub(crate) _tasks: Vec<Task<()>>,
}

/// How much there is room for, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Capacity {
    /// The medium's segments.
    pub total: u64,
    /// What is mapped.
    pub mapped: u64,
    /// True if trimmed sectors still count as mapped. A write that lacks space waits until they do not, and is not refused.
    pub is_reaping: bool,
    /// What may be mapped at most, even if the rest comes in pieces of one sector.
    pub mappable: u64,
    /// What may be mapped at most if the rest comes in blocks of 4 KiB.
    pub mappable_in_blocks: u64,
    /// Preallocated bytes that are not mapped yet: see [`crate::Batch::preallocate`].
    pub preallocated: u64,
    /// Segments in which nothing is live.
    pub unused: u64,
    /// What is neither live nor in an unused segment: the cleaner can get it back.
    pub reclaimable: u64,
}

impl Space {
    /// How many sectors there are, mapped or not.
    pub fn sectors(&self) -> u64 {
        self.inner.superblock.borrow().space_sectors
    }

    /// The superblock as last written; its generation may be that of a write that failed.
    pub fn superblock(&self) -> Ref<'_, Superblock> {
        self.inner.superblock.borrow()
    }

    /// Why the volume fails now, if it does: the device gives errors and is tried again, or the volume was stopped.
    pub fn failure(&self) -> Option<SpaceError> {
        let failed = self.inner.commit.failure().map(SpaceError::Failed);
        failed.or_else(|| self.inner.failing(Duration::ZERO))
    }

    /// How it is to behave.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// One segment in so many is kept free of data, beside what the cleaner and checkpoints need.
    pub fn spare_part(&self) -> u64 {
        self.inner.commit.composer().table.spare_part()
    }

    /// Memory that the map takes, in bytes.
    pub fn map_memory(&self) -> usize {
        self.inner.map.borrow().memory()
    }

    /// What was written to the medium so far.
    pub fn log_stats(&self) -> LogStats {
        self.inner.commit.stats()
    }

    /// What the placement says of itself.
    pub fn facts(&self) -> Vec<Fact> {
        self.inner.placement.borrow().describe()
    }

    /// How many segments that are full are utilised to how many tenths: the first of less than one, the eleventh
    /// of all.
    pub fn histogram(&self) -> [u32; 11] {
        self.inner.commit.composer().table.histogram()
    }

    /// How often the least and the most worn segment were begun anew.
    pub fn wear(&self) -> (u32, u32) {
        self.inner.commit.composer().table.wear()
    }

    /// What was done so far, and for what.
    pub fn stats(&self) -> Stats {
        self.inner.stats.borrow().clone()
    }

    /// How much room there is.
    pub fn capacity(&self) -> Capacity {
        let streams = self.inner.commit.composer();
        let layout = streams.layout;
        let segment = u64::from(layout.segment_bytes);
        let total = segment * u64::from(layout.segment_count);
        let unused = streams.table.unused() as u64 * segment;
        let live = streams.table.live() * SECTOR_BYTES;
        let map = self.inner.map.borrow();
        let room = Room::of(&streams, &map);
        Capacity {
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

    /// Counts sectors as preallocated that batches have preallocated before the volume was opened. The volume does not record
    /// them: the user that does calls this before anything else.
    pub fn restore_preallocated(&self, sectors: u64) {
        self.inner.commit.composer_mut().preallocated += sectors;
    }

    /// What segments are doing and what is kept free, in words: for a volume on which requests wait.
    pub fn explain(&self) -> String {
        let streams = self.inner.commit.composer();
        let map = self.inner.map.borrow();
        let room = Room::of(&streams, &map);
        format!("{:?}; {}", room, streams.table.describe())
    }

    /// Makes everything durable that was done before this was called.
    ///
    /// # Errors
    /// If the volume has failed.
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

    /// The first run of mapped sectors in `range`.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub async fn next_mapped(&self, range: Range<u64>) -> Result<Option<Range<u64>>, SpaceError> {
        let next = self.inner.loading(|map| map.next_mapped(range.clone()));
        next.await
    }

    /// Mapped sectors in the part of `range` that one leaf of the map covers, and where that part ends.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub async fn mapped_in_leaf(&self, range: Range<u64>) -> Result<(u64, u64), SpaceError> {
        let counted = self.inner.loading(|map| map.mapped_in_leaf(range.clone()));
        counted.await
    }

    /// Mapped sectors in `range`. What changes meanwhile is counted or not.
    ///
    /// # Errors
    /// If the map cannot be read.
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

impl Inner {
    /// Reads a node of the map that is needed.
    pub(crate) async fn load(&self, need: &Need) -> Result<(), SpaceError> {
        let (slot, offset) = {
            let mut streams = self.commit.composer_mut();
            let slot = streams.table.slot_at(need.place);
            let slot = slot.ok_or(SpaceError::Node(need.place, LoadError::Stale))?;
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

    /// Has the nodes of the map in memory that tell where a range lies, and keeps them there.
    pub(crate) async fn prepare(
        &self,
        sector: Sector,
        sectors: u64,
        pins: &mut Pins,
    ) -> Result<(), SpaceError> {
        let range = sector.0..sector.0 + sectors;
        self.loading(|map| map.prepare(range.clone(), pins)).await
    }

    /// The same for a range that is to be unmapped.
    pub(crate) async fn prepare_to_unmap(
        &self,
        sector: Sector,
        sectors: u64,
        huge: u64,
        pins: &mut Pins,
    ) -> Result<(), SpaceError> {
        self.loading(|map| prepare_to_unmap(map, sector, sectors, huge, pins))
            .await
    }

    /// Does something to the map, reading what it needs for that.
    pub(crate) async fn loading<T>(
        &self,
        mut attempt: impl FnMut(&mut Map) -> Result<T, Need>,
    ) -> Result<T, SpaceError> {
        loop {
            let tried = attempt(&mut self.map.borrow_mut());
            match tried {
                Ok(done) => return Ok(done),
                Err(need) => self.load(&need).await?,
            }
        }
    }

    pub(crate) fn unpin(&self, slot: crate::geometry::Slot) {
        let free = self.commit.composer_mut().table.unpin(slot);
        if free {
            self.commit.notify();
        }
    }

    /// Waits until every record up to `target` is durable. A request that waits for longer than it may while the device fails
    /// gets an error; the records stay on their way.
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

    /// The error for requests, if the device has been failing for longer than `patience`.
    pub(crate) fn failing(&self, patience: Duration) -> Option<SpaceError> {
        let superblock = self.superblock_fault.borrow().clone();
        let faults = self.commit.fault().into_iter().chain(superblock);
        let fault = faults.min_by_key(|fault| fault.since)?;
        let lasted = self.rt.now().since(fault.since);
        let cause = fault.cause;
        (lasted >= patience).then_some(SpaceError::Failing { lasted, cause })
    }

    /// The error for requests that wait for space, if the device fails the reads that make space, or anything else.
    pub(crate) fn failing_to_make_space(&self) -> Option<SpaceError> {
        let faults = [&self.cleaner_fault, &self.reaper_fault];
        let mut faults = faults.iter().filter_map(|fault| fault.borrow().clone());
        self.failing(Duration::ZERO).or_else(|| {
            let DeviceFault { since, cause } = faults.next()?;
            let lasted = self.rt.now().since(since);
            Some(SpaceError::Failing { lasted, cause })
        })
    }

    /// Notes that a device failed, in one of the faults.
    pub(crate) fn note_fault(&self, fault: &RefCell<Option<DeviceFault>>, error: &dyn Display) {
        let mut fault = fault.borrow_mut();
        let since = fault.as_ref().map_or(self.rt.now(), |fault| fault.since);
        let cause = error.to_string().into();
        *fault = Some(DeviceFault { since, cause });
    }

    /// So many bytes of data were appended.
    pub(crate) fn wrote(&self, bytes: u64) {
        self.written_since.set(self.written_since.get() + bytes);
    }

    pub(crate) fn ask_for_checkpoint(&self) {
        if !self.checkpoint_wanted.replace(true) {
            self.checkpoint_asked.notify_all();
        }
    }
}

/// Whether a write is durable when it completes.
pub(crate) fn is_durable(durability: Durability) -> bool {
    durability == Durability::Fua
}
