//! Failure of the log device: moves the data that only the log or its buffer holds to the data device, and continues
//! without the log.
//!
//! The log may still hold older copies of data that clients write from now on, and a later attach would apply them. So
//! a flush is acknowledged only after all data of the log is on the data device and the log is durably invalid (I7):
//! its superblock is marked *abandoned*, or a failed-log record exists. Other requests continue meanwhile.
//!
//! Data that cannot be read from the log is not lost: the reads are repeated for as long as necessary. Data is lost
//! only if it does not match its checksum, or if an administrator abandons it.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{AckMode, Buf, BufMut, DeviceError, DeviceOp, Durability, Result};
use forebay_ring_log::{LogAddr, LogError, RangeKind};
use forebay_rt::RangeGuard;
use forebay_units::{BlockNumber, SegmentSeq};
use futures_util::future::{Either, select};

use crate::engine::{DcdEngine, sectors};
use crate::home::LogReadOutcome;
use crate::marks::home_parts;
use crate::piece::{LoadedFragment, LogFragment, bytes_of};
use crate::policy;
use crate::ranges::RangeState;
use crate::yielding::WritebackPriority;

/// Fragments written between two flushes of the data device.
const BATCH: usize = 8192;

/// Addresses of fragments in the log, each with its block of the volume.
type FragmentAddrs = Vec<(LogAddr, BlockNumber)>;

/// Reason why some data is not on the data device yet.
struct IncompleteRescue {
    /// True if the attempt moved some data to the data device.
    progress: bool,
}

/// Waits for the log to fail, then moves its data to the data device and makes the log invalid.
pub(crate) async fn rescuer(engine: Rc<DcdEngine>) {
    let failure = engine.log.failed().await;
    if failure == LogError::Retired {
        tracing::info!("the log is taken out of use; its last data is moved to the data device");
    } else {
        tracing::error!(%failure, "the volume continues without its log");
    }
    engine.rescue.borrow_mut().begin();
    engine.signals.settled.notify_all();
    let mut failures = 0;
    loop {
        engine.service.borrow_mut().rescuing = true;
        let rescued = engine.rescue().await;
        engine.service.borrow_mut().rescuing = false;
        engine.doing.borrow_mut().end();
        engine.signals.settled.notify_all();
        match rescued {
            Ok(()) => break,
            Err(IncompleteRescue { progress }) => {
                failures = if progress { 0 } else { failures + 1 };
                engine.pause_before_retry(failures).await;
            }
        }
    }
    engine.disown_log().await;
}

impl DcdEngine {
    async fn pause_before_retry(&self, failures: u32) {
        let waited_for = self.activity.borrow().is_busy();
        self.pause(policy::retry_after(failures, waited_for)).await;
    }

    /// Moves the data of the failed log to the data device. Data in memory goes first, since that is quick and cannot
    /// fail to be read.
    async fn rescue(&self) -> Result<(), IncompleteRescue> {
        let mut progress = false;
        self.rescue_marks()
            .await
            .map_err(|()| IncompleteRescue { progress })?;
        let (in_ram, on_device) = self.pieces_by_place();
        let mut left = false;
        for batch in in_ram.chunks(BATCH) {
            let pieces = self.still_there(batch);
            let mut loaded = LogReadOutcome::default();
            for piece in pieces {
                let copy = |bytes: &[u8]| BufMut::copy_of(bytes).freeze();
                let bytes = self.log.with_ram(piece.addr, piece.sectors.into(), copy);
                loaded
                    .sound
                    .extend(bytes.map(|bytes| LoadedFragment { piece, bytes }));
            }
            left |= !self.settle_home(loaded.sound, &mut progress).await;
        }
        let (mut unreadable, mut gone) = (0, false);
        for batch in on_device.chunks(BATCH) {
            let pieces = self.still_there(batch);
            if gone {
                unreadable += bytes_of(&pieces);
                continue;
            }
            let abandon_limit = self.faults.borrow().abandon_limit();
            let (asked, mut loaded) = (
                pieces.len(),
                self.load(pieces, WritebackPriority::Rescue).await,
            );
            left |= loaded.stopped;
            self.apply_abandon_limit(&mut loaded, abandon_limit);
            left |= !self.settle_home(loaded.sound, &mut progress).await;
            self.mark_lost(&loaded.damaged);
            unreadable += bytes_of(&loaded.unreadable);
            if let Some(error) = &loaded.error {
                self.log_troubles(format!("the failed log cannot be read: {error}"));
            }
            // Checks once whether the device is gone, instead of in each batch.
            gone = asked > 0 && loaded.unreadable.len() == asked && !self.log.answers().await;
        }
        self.faults.borrow_mut().unreadable = unreadable;
        // Asks the map instead of counting the fragments above: destaging may have moved a fragment meanwhile.
        let all_home = {
            let map = self.map.borrow();
            map.live_sectors() == 0 && map.ranges().lost() == map.ranges().len()
        };
        if left || !all_home || unreadable > 0 || self.is_stopping() {
            return Err(IncompleteRescue { progress });
        }
        self.faults.borrow_mut().all_is_read();
        Ok(())
    }

    /// Carries out the pending zeroes and discards on the data device. Afterwards the map no longer needs them.
    async fn rescue_marks(&self) -> Result<(), ()> {
        let marks: Vec<(Range<u64>, RangeState)> = self.map.borrow().ranges().iter().collect();
        let marks = marks
            .into_iter()
            .filter(|(_, mark)| mark.kind != RangeKind::Lost);
        let marks: Vec<_> = marks.collect();
        if marks.is_empty() {
            return Ok(());
        }
        let lost = self.past_log.borrow().flushes_failed();
        let attempt = async {
            for (range, mark) in &marks {
                for part in home_parts(range.clone()) {
                    self.give_way(WritebackPriority::Rescue).await?;
                    let done = self.mark_at_home(*mark, part.clone()).await;
                    self.doing.borrow_mut().carry(part.end - part.start);
                    // Discarded data has no use, so a discard that failed does no harm.
                    if mark.kind != RangeKind::Discard {
                        done?;
                    }
                }
            }
            self.flush_written(lost).await
        };
        if let Err(error) = attempt.await {
            self.note_setback(&error);
            return Err(());
        }
        let mut map = self.map.borrow_mut();
        for (range, mark) in marks {
            map.forget_mark(range, mark);
        }
        Ok(())
    }

    /// Returns all fragments by block and address: first those in memory, then those on the log device in its order.
    fn pieces_by_place(&self) -> (FragmentAddrs, FragmentAddrs) {
        let map = self.map.borrow();
        let all = map.all_pieces();
        let in_ram = |piece: &LogFragment| {
            let there = self.log.with_ram(piece.addr, piece.sectors.into(), |_| ());
            there.is_some()
        };
        let (in_ram, on_device): (Vec<LogFragment>, Vec<LogFragment>) = all.partition(in_ram);
        let places = |pieces: Vec<LogFragment>| {
            let mut places: Vec<_> = pieces.iter().map(|p| (p.addr, p.line)).collect();
            places.sort_unstable();
            places
        };
        (places(in_ram), places(on_device))
    }

    fn still_there(&self, places: &[(LogAddr, BlockNumber)]) -> Vec<LogFragment> {
        let map = self.map.borrow();
        let found = places.iter();
        found
            .filter_map(|(addr, line)| map.piece_at(*line, *addr))
            .collect()
    }

    /// Makes fragments durable on the data device and removes them from the map. Returns false if some are left.
    async fn settle_home(&self, sound: Vec<LoadedFragment>, progress: &mut bool) -> bool {
        if sound.is_empty() {
            return true;
        }
        let lost = self.past_log.borrow().flushes_failed();
        let home = self.write_pieces_home(sound.clone(), WritebackPriority::Rescue, true);
        let home = home.await;
        self.counters.borrow_mut().destaged_bytes += home.written;
        if let Some(error) = &home.error {
            self.note_setback(error);
        }
        if let Err(error) = self.flush_written(lost).await {
            self.note_setback(&error);
            return false;
        }
        self.forget_home(&home.taken);
        *progress |= !home.taken.is_empty();
        // Some fragments may not have been tried, because the volume is closing.
        let all = home.taken.len() == sound.len();
        if all {
            self.faults.borrow_mut().data.clear();
        }
        all
    }

    fn note_setback(&self, error: &DeviceError) {
        if !self.is_stopping() {
            tracing::warn!(%error, "the data device fails, too; will retry");
            self.data_fails(error);
        }
    }

    /// Declares unreadable fragments in segments before `before` lost. `before` is the limit of an administrator's
    /// abandon command, which must have been given before these fragments were tried.
    pub(crate) fn apply_abandon_limit(
        &self,
        loaded: &mut LogReadOutcome,
        before: Option<SegmentSeq>,
    ) {
        let Some(before) = before else {
            return;
        };
        let (ring, tail) = (self.log.ring(), self.log.tail());
        let unreadable = std::mem::take(&mut loaded.unreadable);
        let abandoned = |piece: &LogFragment| ring.segment_of(piece.addr, tail) < before;
        let (lost, left): (Vec<LogFragment>, Vec<LogFragment>) =
            unreadable.into_iter().partition(abandoned);
        loaded.damaged.extend(lost);
        loaded.unreadable = left;
        if loaded.unreadable.is_empty() {
            loaded.error = None;
        }
    }

    /// Marks the sectors of damaged or abandoned fragments as lost, so that reads of them fail from now on. All of this
    /// data had been made durable, since data that was not durable is still in memory.
    fn mark_lost(&self, damaged: &[LogFragment]) {
        if damaged.is_empty() {
            return;
        }
        tracing::error!(pieces = damaged.len(), "data was lost with the log");
        let record = self.log.next_record();
        let kind = RangeKind::Lost;
        let mut map = self.map.borrow_mut();
        for piece in damaged {
            let now = map.piece_at(piece.line, piece.addr);
            let runs: Vec<_> = now.into_iter().flat_map(LogFragment::live_runs).collect();
            for range in runs {
                map.mark(range, Some(RangeState { kind, record }));
            }
        }
    }

    /// Ensures that no later attach uses the failed log, and only then allows flushes to be acknowledged. Continues
    /// until the log itself is marked, since its device may work again later.
    async fn disown_log(&self) {
        let mut failures = 0;
        loop {
            let marked = self.mark_abandoned().await;
            let settled =
                marked.is_ok() || self.rescue.borrow().is_witnessed() || self.testify().await;
            self.rescue.borrow_mut().marked(marked.is_ok());
            if settled {
                self.faults.borrow_mut().log.clear();
                self.rescue.borrow_mut().finish();
            } else if let Err(error) = &marked {
                let what = "the failed log cannot be marked as abandoned";
                self.log_troubles(format!("{what}: {error}"));
            }
            self.signals.settled.notify_all();
            if marked.is_ok() {
                return;
            }
            self.pause_before_retry(failures).await;
            failures += 1;
        }
    }

    /// Marks the log when the volume closes, if this was not possible earlier. Also removes ranges from its list of
    /// lost ranges that were durably written since. Otherwise a later salvage would replace the newer data.
    pub(crate) async fn mark_for_good(&self) {
        let same = self.payload.borrow().lost == self.lost_ranges();
        if same && !self.rescue.borrow().has_stale_log() {
            return;
        }
        let marked = self.mark_abandoned().await;
        self.rescue.borrow_mut().marked(marked.is_ok());
        let layer = self.payload.borrow().encode();
        let amended = self.log.amend_abandoned(|next| next.layer = layer).await;
        if let Err(error) = amended {
            tracing::warn!(%error, "the failed log still lists ranges as lost that were written again later");
        }
    }

    /// Marks the log as abandoned, if its device still takes writes.
    async fn mark_abandoned(&self) -> Result<()> {
        let (lost, sectors) = (self.lost_ranges(), self.lost_sectors());
        let layer = {
            let mut payload = self.payload.borrow_mut();
            payload.lost_sectors = sectors;
            payload.lost = lost;
            payload.encode()
        };
        let marked = self
            .log
            .abandon(|superblock| superblock.layer = layer)
            .await;
        marked.inspect_err(|error| {
            tracing::error!(%error, "the failed log could not be marked; do not attach it again");
        })
    }

    /// Has the failed-log record, or the command of an administrator, stand for the mark that could not be written to
    /// the log. Returns true if one of them suffices.
    async fn testify(&self) -> bool {
        let Some(witness) = &self.witness else {
            return self.rescue.borrow_mut().asked_witness(false);
        };
        let epoch = self.log.superblock().epoch.0;
        let kept = witness.abandon(self.log.volume(), epoch).await;
        if let Err(error) = &kept {
            tracing::error!(%error, "the failed-log record could not be written either");
        }
        self.rescue.borrow_mut().asked_witness(kept.is_ok())
    }

    /// Waits until all data of the failed log is on the data device and the log can no longer be attached.
    ///
    /// # Errors
    /// If this takes longer than the configured patience.
    async fn until_rescued(&self, op: DeviceOp) -> Result<()> {
        let done = || self.rescue.borrow().is_done().then_some(());
        let rescued = self.signals.settled.until(done);
        let (rescued, lasts) = (
            std::pin::pin!(rescued),
            std::pin::pin!(self.trouble_lasts()),
        );
        match select(rescued, lasts).await {
            Either::Left(_) => Ok(()),
            Either::Right((cause, _)) => {
                let what = "the log failed, and the rescue of its data cannot finish";
                let cause = format!("{what}: {cause}").into();
                Err(DeviceError::Failed { op, cause })
            }
        }
    }

    /// Locks sectors of the data device for a client's change without a log.
    ///
    /// # Errors
    /// If the volume is being closed: a slow device could keep a queue of such changes busy for minutes.
    async fn turn_at_home(&self, op: DeviceOp, sectors: Range<u64>) -> Result<RangeGuard> {
        let turn = self.home.lock(sectors).await;
        if self.is_closing() {
            return Err(DeviceError::Closed { op });
        }
        Ok(turn)
    }

    /// Writes to the data device without a log. If the log or its buffer holds older data of the range, this older data
    /// is removed from the map only after the new data is durable: the data device could still lose the new data, and
    /// the older copy is durable.
    pub(crate) async fn write_home(&self, at: u64, buf: Buf, when: AckMode) -> Result<()> {
        let range = sectors(&(at..at + buf.len() as u64));
        let _turn = self.turn_at_home(DeviceOp::Write, range.clone()).await?;
        let held = self.map.borrow().overlaps(range.clone());
        let durability = if when > AckMode::Memory || held {
            Durability::Fua
        } else {
            Durability::Flush
        };
        let len = buf.len() as u64;
        self.write_past_log(at, buf, durability).await?;
        self.counters.borrow_mut().bypass_bytes += len;
        self.map.borrow_mut().mark(range, None);
        Ok(())
    }

    /// Carries out a discard or write-zeroes without a log.
    pub(crate) async fn mark_home(
        &self,
        op: DeviceOp,
        kind: RangeKind,
        range: Range<u64>,
    ) -> Result<()> {
        for part in home_parts(range) {
            let turn = self.turn_at_home(op, part.clone()).await?;
            let lost = self.change_home_past_log(kind, part.clone()).await?;
            self.past_log.borrow_mut().note();
            if op == DeviceOp::WriteZeroes {
                if self.map.borrow().overlaps(part.clone()) {
                    self.flush_written(lost).await?;
                }
                self.map.borrow_mut().mark(part, None);
            }
            drop(turn);
            self.rt.yield_now().await;
        }
        Ok(())
    }

    /// Zeroes or discards a range of which the log holds no copy. Repeats the change if a flush failed meanwhile, since
    /// the failed flush may have undone the change. Returns the number of flushes that had failed before.
    async fn change_home_past_log(&self, kind: RangeKind, range: Range<u64>) -> Result<u64> {
        loop {
            let lost = self.past_log.borrow().flushes_failed();
            self.change_home(kind, range.clone()).await?;
            if self.past_log.borrow().flushes_failed() == lost {
                return Ok(lost);
            }
        }
    }

    /// Flushes without a log: flushes the data device, once all data of the failed log is there.
    pub(crate) async fn flush_home(&self, op: DeviceOp) -> Result<()> {
        self.until_rescued(op).await?;
        self.make_bypassed_durable(op).await
    }
}
