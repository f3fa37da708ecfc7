//! Application of a batch: waits for free space, then applies the whole batch without interruption.

use forebay_placement::WriteClock;
use forebay_placement::placement::{
    FillLevel, OverwrittenExtent, Placement, Tuner, UserPlace, UserWrite,
};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, Durability};
use forebay_rt::Instant;
use forebay_segment_log::RecordComposer as _;
use forebay_units::{LINE_SECTORS, RecordSeq, SECTOR_BYTES, Sector};

use crate::batch::{Batch, BatchOp};
use crate::claim::{ClaimFloors as _, SegmentDemand, SegmentGrant};
use crate::error::SpaceError;
use crate::format::{SpaceEntry, StreamNumber};
use crate::homes::{InPlaceTarget, InPlaceWrites};
use crate::prepared::{mapped, unmap};
use crate::queued::{QueuedBatch, WaitingBatch};
use crate::room::{BatchAdmission, BatchRequest, SpaceBudget, SpaceShortage};
use crate::space::{Space, SpaceInner, is_durable};
use crate::streams::{SegmentStreams, StreamCounts};
use forebay_extent_map::ExtentMap;
use forebay_extent_map::LogPlace;
use forebay_extent_map::{ExtentCheck, MapChanges, MapExtent};

/// After this time in the queue for segments without progress, a batch requests a checkpoint if a checkpoint frees
/// space.
const LONG_WAIT: Duration = Duration::from_secs(1);
/// After this number of long waits, a batch requests a checkpoint even if a checkpoint does not seem to free space.
const LONGER_WAIT: u32 = 8;

impl Space {
    /// Applies a batch: all of it, in order, or nothing. Returns the change of the number of mapped sectors. (Large
    /// trims are not counted immediately.)
    ///
    /// # Errors
    /// The batch was refused, or the volume has failed. No part of the batch was applied.
    pub async fn apply(&self, batch: &Batch, durability: Durability) -> Result<i64, SpaceError> {
        let inner = &self.inner;
        batch.check(self.sectors())?;
        let mut ranges = Vec::with_capacity(batch.ops().len());
        for op in batch.ops() {
            ranges.push(op.range()?);
        }
        inner.wait_for_trims(batch).await?;
        let huge = inner.options.huge_trim;
        let mut pins = inner.map.borrow().pins();
        for (op, (sector, sectors)) in batch.ops().iter().zip(&ranges) {
            match op {
                BatchOp::Write { .. } => inner.prepare(*sector, *sectors, &mut pins).await?,
                BatchOp::Trim { .. } => {
                    let prepared = inner.prepare_to_unmap(*sector, *sectors, huge, &mut pins);
                    prepared.await?;
                }
            }
        }
        let asking = BatchRequest {
            batch,
            ranges: &ranges,
            huge,
        };
        let grant = inner.admit(asking).await?;
        // No await from here to the end of the batch, so no other task runs between its operations.
        let (target, more) = inner.do_all(batch, huge, grant);
        drop(pins);
        inner.after_batch();
        if is_durable(durability) {
            let target = target.max(inner.close_open());
            inner.flush(target).await?;
        } else {
            inner.portions.consume(&inner.rt, batch.bytes()).await;
        }
        inner.wait_for_homes().await;
        Ok(more)
    }

    /// Returns the maximum length, in bytes, of a write that is never too large for the volume: a multiple of 4 KiB. A
    /// longer write must be split, or is refused while segments are scarce.
    pub fn write_max(&self) -> u64 {
        let (streams, map) = (self.inner.commit.composer(), self.inner.map.borrow());
        SpaceBudget::of(&streams, &map).write_max(&streams)
    }
}

impl SpaceInner {
    /// Waits until few enough detached subtrees wait for the reaper: a checkpoint names all of them.
    async fn wait_for_trims(&self, batch: &Batch) -> Result<(), SpaceError> {
        if batch
            .ops()
            .iter()
            .all(|op| matches!(op, BatchOp::Write { .. }))
        {
            return Ok(());
        }
        let since = self.rt.now();
        loop {
            let progress = self.commit.progress();
            if let Some(failure) = self.commit.failure() {
                return Err(failure.into());
            }
            if self.map.borrow().detached() <= self.options.detached_max {
                return Ok(());
            }
            self.abandon_on_fault(since)?;
            self.reap_asked.notify_all();
            let _ = self.rt.timeout(LONG_WAIT, progress).await;
        }
    }

    pub(crate) fn close_open(&self) -> RecordSeq {
        self.commit.composer_mut().close()
    }

    /// Waits until space is available for a batch. A batch that waits for segments is queued. Later batches wait behind
    /// it, unless space suffices for all. A batch that waits for another condition does not block others.
    async fn admit(self: &Rc<Self>, asking: BatchRequest<'_>) -> Result<SegmentGrant, SpaceError> {
        let batch = asking.batch;
        let sectors = batch.bytes() / SECTOR_BYTES;
        let since = self.rt.now();
        loop {
            let progress = self.commit.progress();
            let ahead = self.pacing.borrow().queued();
            match self.asks(asking, ahead)? {
                GrantResult::Granted(grant) if self.pace(sectors).is_none() => return Ok(grant),
                GrantResult::Lacks(SpaceShortage::Trimmed | SpaceShortage::Checkpoint) => {
                    self.abandon_on_fault(since)?;
                    let _ = self.rt.timeout(LONG_WAIT, progress).await;
                }
                GrantResult::Granted(_) | GrantResult::Lacks(_) => {
                    drop(progress);
                    if let Some(grant) = self.admit_in_turn(asking, since).await? {
                        return Ok(grant);
                    }
                }
            }
        }
    }

    /// Waits like [`SpaceInner::admit`], in the queue for segments, for a batch that has waited since `since`. `None` if the
    /// batch now waits for another condition.
    async fn admit_in_turn(
        self: &Rc<Self>,
        asking: BatchRequest<'_>,
        since: Instant,
    ) -> Result<Option<SegmentGrant>, SpaceError> {
        let sectors = asking.batch.bytes() / SECTOR_BYTES;
        let _queued = QueuedBatch::new(self, asking.batch);
        let _turn = self.admission.lock().await;
        let mut long_waits = 0;
        loop {
            let progress = self.commit.progress();
            let grant = match self.asks(asking, SegmentDemand::default())? {
                GrantResult::Granted(grant) => grant,
                GrantResult::Lacks(SpaceShortage::Trimmed | SpaceShortage::Checkpoint) => {
                    return Ok(None);
                }
                GrantResult::Lacks(lack) => {
                    // Check before the wait: the patience of all queued writers may end at the same time.
                    self.abandon_on_fault(since)?;
                    let short = matches!(lack, SpaceShortage::Segments { .. });
                    let _pressing = short.then(|| WaitingBatch::new(self));
                    let waited = self.rt.timeout(LONG_WAIT, progress).await;
                    long_waits += u32::from(waited.is_err());
                    let longer = long_waits % LONGER_WAIT == 0 && self.checkpoint_helps();
                    if waited.is_err() && (longer || self.checkpoint_makes_room()) {
                        self.ask_for_checkpoint();
                    }
                    continue;
                }
            };
            let Some(wait) = self.pace(sectors) else {
                return Ok(Some(grant));
            };
            // The wait time changes with the cleaner's progress.
            let _ = self.rt.timeout(wait, progress).await;
        }
    }

    /// Returns an error if the device fails and the request has waited since `since` for as long as requests wait.
    fn abandon_on_fault(&self, since: Instant) -> Result<(), SpaceError> {
        let waited = self.rt.now().since(since);
        match self.failing_to_make_space() {
            Some(error) if waited >= self.options.patience => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the time that a batch of `sectors` sectors must wait, so that free space is used up smoothly.
    fn pace(&self, sectors: u64) -> Option<Duration> {
        let (streams, map) = (self.commit.composer(), self.map.borrow());
        let mut pacing = self.pacing.borrow_mut();
        pacing.pace(&streams, &map, self.rt.now(), sectors)
    }

    /// Requests space for a batch, and for the batches before it in the queue.
    ///
    /// # Errors
    /// Space cannot become available in the current state, or the volume has failed.
    fn asks(
        self: &Rc<Self>,
        asking: BatchRequest<'_>,
        ahead: SegmentDemand,
    ) -> Result<GrantResult, SpaceError> {
        if let Some(failure) = self.commit.failure() {
            return Err(failure.into());
        }
        let streams = self.commit.composer();
        let map = self.map.borrow();
        let room = SpaceBudget::of(&streams, &map);
        let verdict = room.verdict(&streams, &map, asking, ahead);
        let batch = asking.batch;
        let own = streams.segments_needed(SegmentDemand::of(batch));
        let lack = match verdict {
            BatchAdmission::Now => match streams.grant(&room, asking.claim(), own) {
                Some(grant) => return Ok(GrantResult::Granted(grant)),
                None => SpaceShortage::Memory,
            },
            BatchAdmission::Wait(lack) => lack,
            BatchAdmission::Never { need, have } => return Err(SpaceError::Full { need, have }),
            BatchAdmission::Large { need, most } => return Err(SpaceError::Large { need, most }),
        };
        let need = own + room.floor(asking.claim());
        let helps = room.checkpoint_helps(&streams.table);
        drop((streams, map));
        self.replenish(need);
        let wants = matches!(
            lack,
            SpaceShortage::Checkpoint | SpaceShortage::Segments { checkpoint: true }
        );
        if wants && helps {
            self.ask_for_checkpoint();
        }
        if lack == SpaceShortage::Trimmed {
            self.reap_asked.notify_all();
        }
        Ok(GrantResult::Lacks(lack))
    }

    /// Applies a whole batch. Returns the newest composed record, behind which the open records follow, and the change
    /// of the number of mapped sectors.
    fn do_all(&self, batch: &Batch, huge: u64, grant: SegmentGrant) -> (RecordSeq, i64) {
        let mut streams = self.commit.composer_mut();
        let mut map = self.map.borrow_mut();
        let before = map.mapped_sectors();
        let placement = &mut self.placement.borrow_mut();
        let mut doing = BatchApplier {
            grant,
            streams: &mut streams,
            map: &mut map,
            changes: MapChanges::default(),
            huge,
            placement: &mut ***placement,
            tuner: &mut self.tuner.borrow_mut(),
            homes: &mut self.homes.borrow_mut(),
            block: self.device.geometry().block_size.into(),
            now: self.rt.now(),
        };
        let preallocated = doing.streams.preallocated;
        doing.streams.preallocated = preallocated.saturating_add_signed(batch.preallocates());
        for op in batch.ops() {
            match op {
                BatchOp::Write { sector, data } => doing.write(*sector, data),
                BatchOp::Trim { sector, sectors } => doing.trim(*sector, *sectors),
            }
        }
        streams.end_batch();
        let more = map.mapped_sectors().cast_signed() - before.cast_signed();
        drop(map);
        self.commit.appended(&mut streams, false);
        self.entries_since
            .set(self.entries_since.get() + batch.entries());
        self.wrote(batch.bytes());
        let mut stats = self.stats.borrow_mut();
        stats.batches += 1;
        stats.bytes_written += batch.bytes();
        (streams.last_record(), more)
    }

    /// Wakes the background tasks that may have work after a batch.
    pub(crate) fn after_batch(self: &Rc<Self>) {
        self.ask_for_checkpoint_if_due();
        self.replenish(0);
        self.tell_fill();
        if self.wants_look() {
            self.tune_asked.notify_all();
        }
        self.clean_asked.notify_all();
        if self.map.borrow().detached() > 0 {
            self.reap_asked.notify_all();
        }
        self.map
            .borrow_mut()
            .shrink(self.options.map_bytes as usize);
    }
}

impl SpaceInner {
    /// Reports the fill of the device to the placement, if it changed by much.
    pub(crate) fn tell_fill(&self) {
        let (streams, map) = (self.commit.composer(), self.map.borrow());
        let room = SpaceBudget::of(&streams, &map);
        let (live, capacity) = room.filled();
        let fill = FillLevel { live, capacity };
        let told = self.fill_told.get();
        if told.is_some_and(|told| !fill.differs_from(&told)) {
            return;
        }
        self.fill_told.set(Some(fill));
        self.placement.borrow_mut().filled(fill);
    }
}

/// The result of a request for space.
enum GrantResult {
    Granted(SegmentGrant),
    Lacks(SpaceShortage),
}

/// A batch while it is being applied.
struct BatchApplier<'a> {
    grant: SegmentGrant,
    streams: &'a mut SegmentStreams,
    map: &'a mut ExtentMap,
    changes: MapChanges,
    /// Minimum length of trims that do not examine all old mappings, in sectors.
    huge: u64,
    placement: &'a mut dyn Placement,
    tuner: &'a mut Tuner,
    homes: &'a mut InPlaceWrites,
    /// Block size of the device.
    block: u64,
    /// Wall clock, for placements that use it.
    now: Instant,
}

/// Fragments that are adjacent in the space and on the device.
struct AdjacentFragments {
    sector: Sector,
    sectors: u64,
    place: LogPlace,
    /// Checksum, if the run is a single fragment.
    crc: Option<u32>,
}

impl BatchApplier<'_> {
    /// Asks the placement for the place of a client's write, and for the number of sectors that go there.
    fn ask(&mut self, at: Sector, sectors: u64) -> (UserPlace, u64) {
        let user = self.streams.counts.user;
        let write = UserWrite {
            at,
            sectors: u32::try_from(sectors).unwrap_or(u32::MAX),
            now: self.streams.clock,
            nanos: self.now.as_nanos(),
            overwrites: if user > 1 { self.overwritten(at) } else { None },
        };
        let placed = self.placement.place_user(&write);
        let place = match placed.place {
            UserPlace::Append(n) => UserPlace::Append(n.min(user - 1)),
            UserPlace::InPlace(n) => UserPlace::InPlace(n.min(user - 1)),
        };
        let sectors = u64::from(placed.sectors).clamp(1, sectors);
        self.streams.clock = WriteClock(self.streams.clock.0 + sectors);
        (place, sectors)
    }

    /// Returns the data that a write to a sector overwrites.
    fn overwritten(&self, at: Sector) -> Option<OverwrittenExtent> {
        let mapped = mapped(self.map, at, 1);
        let slot = self.streams.table.slot_at(mapped.first()?.place)?;
        let segment = self.streams.table.get(slot);
        Some(OverwrittenExtent {
            born: segment.born,
            stream: StreamCounts::named(segment.stream),
        })
    }

    fn write(&mut self, sector: Sector, data: &Buf) {
        let (map, all) = (&*self.map, (data.len() as u64 / SECTOR_BYTES) as u32);
        self.tuner
            .wrote(sector, all, |at| !mapped(map, at, 1).is_empty());
        let (mut at, mut done) = (sector, 0);
        let mut run: Option<AdjacentFragments> = None;
        let (mut wanted, mut placed) = (UserPlace::Append(0), 0);
        while done < data.len() {
            let left = (data.len() - done) as u64 / SECTOR_BYTES;
            if placed == 0 {
                (wanted, placed) = self.ask(at, left);
            }
            let (UserPlace::Append(n) | UserPlace::InPlace(n)) = wanted;
            let stream = StreamNumber(n);
            let in_line = LINE_SECTORS - u64::from(at.in_line());
            let sectors = in_line.min(placed);
            placed -= sectors;
            let len = (sectors * SECTOR_BYTES) as usize;
            let piece = &data[done..done + len];
            let home = self.home_of(at, sectors, wanted);
            if self.streams.counts.user > 1 && self.is_open_elsewhere(at, sectors, stream) {
                self.streams.end_round();
            }
            let crc = crc32c::crc32c(piece);
            let entry = SpaceEntry::Data {
                sector: at,
                sectors: sectors as u8,
                crc,
            };
            let place = self.streams.append(&mut self.grant, stream, entry, piece);
            if let Some(home) = home {
                let data = data.slice(done..done + len);
                self.homes
                    .add(at.line(), home, (place, crc), data, self.now);
            }
            match &mut run {
                Some(run) if run.place.plus(run.sectors) == place => {
                    run.sectors += sectors;
                    run.crc = None;
                }
                _ => {
                    let ended = run.replace(AdjacentFragments {
                        sector: at,
                        sectors,
                        place,
                        crc: Some(crc),
                    });
                    if let Some(ended) = ended {
                        self.map_to(ended);
                    }
                }
            }
            (at, done) = (at.plus(sectors), done + len);
        }
        if let Some(run) = run {
            self.map_to(run);
        }
    }

    /// Returns the place for the write in place of a fragment. `None` if it stays in the log.
    fn home_of(&mut self, at: Sector, sectors: u64, wanted: UserPlace) -> Option<InPlaceTarget> {
        let stays = matches!(wanted, UserPlace::Append(_)) || sectors < LINE_SECTORS;
        if stays {
            self.homes.forget(at);
            return None;
        }
        self.homes.of(at.line(), self.map, self.streams, self.block)
    }

    fn map_to(&mut self, run: AdjacentFragments) {
        let extent = MapExtent {
            sector: run.sector.0,
            sectors: run.sectors,
            place: run.place,
            check: run.crc.map_or(ExtentCheck::Segment, ExtentCheck::Inline),
        };
        let set = self.map.set(extent, &mut self.changes);
        set.expect("the nodes were prepared");
        self.count();
    }

    fn trim(&mut self, sector: Sector, sectors: u64) {
        let stream = StreamNumber(0);
        let elsewhere = || sectors >= self.huge || self.is_open_elsewhere(sector, sectors, stream);
        if self.streams.counts.user > 1 && elsewhere() {
            self.streams.end_round();
        }
        let entry = SpaceEntry::Trim { sector, sectors };
        self.streams.append(&mut self.grant, stream, entry, &[]);
        unmap(self.map, sector, sectors, self.huge, &mut self.changes);
        self.count();
    }

    /// Returns true if a part of the range lies in an open record of another stream.
    fn is_open_elsewhere(&self, sector: Sector, sectors: u64, stream: StreamNumber) -> bool {
        let mapped = mapped(self.map, sector, sectors);
        let mut mapped = mapped.into_iter();
        mapped.any(|extent| self.streams.is_open_elsewhere(extent.place, stream))
    }

    fn count(&mut self) {
        self.streams.table.count(&self.changes);
        self.changes.clear();
    }
}
