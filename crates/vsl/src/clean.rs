//! The cleaner: empties segments that hold little live data, so that they can be used again.
//!
//! The cleaner reads the live data of a few segments, sorts it, appends it to streams of moved data, and updates the
//! map. This alone releases no segment: a segment is used again only when the moved copies are durable (`table.rs`). A
//! moved fragment is valid only if the map still points at its old place, at run time and at recovery.
//!
//! - `clean/choose.rs`: selection of segments.
//! - `clean/load.rs`: reading and checking live data.
//! - `clean/place.rs`: moving live data.
//! - `clean/reap.rs`: subtrees that large trims detached from the map.
//! - `clean/retry.rs`: the next try after a read failure.

mod choose;
mod load;
mod place;
mod reap;
mod retry;

use std::rc::Rc;
use std::time::Duration;

use forebay_placement::pace::{CleaningDecision, CleaningUrgency};
use forebay_placement::placement::{CollectedSegment, MoveOrder};
use forebay_rt::{EventListener, Instant};
use forebay_segment_log::RecordComposer as _;
use forebay_units::SegmentSeq;

use crate::claim::SegmentClaim;
use crate::error::SpaceError;
use crate::geometry::SegmentSlot;
use crate::room::SpaceBudget;
use crate::space::SpaceInner;
use crate::streams::StreamCounts;
use load::{LiveFragment, LoadedFragments};
pub(crate) use reap::reaper;
use retry::ReadRetry;

/// After this number of consecutive failures, the next try waits as well: the whole device seems to fail.
const FAILURES: u32 = 4;

/// A segment that is being cleaned.
struct CleaningSegment {
    slot: SegmentSlot,
    segment: SegmentSeq,
    live: u32,
    gain: u32,
}

/// Segments that are cleaned together.
struct CleaningWindow {
    chosen: Vec<CleaningSegment>,
    /// True if all segments that can be cleaned are not yet on the device.
    in_memory: bool,
    moving: MoveMode,
}

/// The streams and the claim by which the cleaner moves live data.
#[derive(Clone, Copy)]
struct MoveMode {
    /// True if all live data goes to one stream, because free segments are scarce: each stream needs an open segment
    /// and a record that are only partly filled.
    one_stream: bool,
    claim: SegmentClaim,
}

/// The result of an attempt to clean.
enum CleaningResult {
    /// Segments were emptied.
    Some,
    /// No segment gains enough, or none before a checkpoint.
    Nothing,
    /// Segments would gain something, but they are not on the device yet.
    InMemory,
}

/// Cleans whenever free space is short.
pub(crate) async fn cleaner(inner: Rc<SpaceInner>) {
    let now = || inner.rt.now().as_nanos();
    let mut retry = ReadRetry::new();
    // Sectors gained by emptying segments whose moved data is in open records.
    let mut unsent = 0;
    loop {
        let asked = inner.clean_asked.listen();
        let progress = inner.commit.progress();
        if inner.commit.failure().is_some() {
            return;
        }
        inner.retry_unreadable(&mut retry);
        match inner.level_wear().await {
            Ok(false) => {}
            Ok(true) => continue,
            Err(_) => retry.failed(inner.rt.now()),
        }
        let urgency = match inner.decide() {
            CleaningDecision::Clean(urgency) => urgency,
            CleaningDecision::Rest => {
                inner.end_records(&mut unsent);
                inner.pacing.borrow_mut().pacer.pause();
                inner.until(asked, retry.at).await;
                inner.pacing.borrow_mut().pacer.begin(now());
                continue;
            }
            CleaningDecision::Wait(nanos) => {
                inner.end_records(&mut unsent);
                let at = inner.rt.now().plus(Duration::from_nanos(nanos));
                let at = retry.at.map_or(at, |retry| retry.min(at));
                inner.until(asked, Some(at)).await;
                continue;
            }
        };
        drop(asked);
        let cleaned = inner.clean_window(urgency, &mut unsent).await;
        if !matches!(cleaned, Ok(CleaningResult::Some)) || inner.is_worth_a_record(unsent) {
            inner.end_records(&mut unsent);
        }
        match cleaned {
            Ok(CleaningResult::Some) => {
                retry.succeeded(inner.rt.now());
                inner.cleaner_fault.replace(None);
                // While all writers wait for segments, no batch ends that would request a checkpoint.
                inner.ask_for_checkpoint_if_due();
            }
            Ok(CleaningResult::Nothing) => {
                if urgency == CleaningUrgency::Urgent {
                    inner.make_way(SegmentClaim::Cleaner);
                }
                inner.until(progress, retry.at).await;
            }
            Ok(CleaningResult::InMemory) => {
                let last = inner.commit.composer_mut().end_all();
                inner.commit.has_work();
                let _ = inner.commit.flush(last).await;
            }
            // Unreadable data stays in its place. Other segments can still be cleaned.
            Err(error) => inner.back_off(&mut retry, &error).await,
        }
        inner.rt.yield_now().await;
    }
}

impl SpaceInner {
    /// Makes unreadable segments available for cleaning when a retry is due: one segment if the device fails, otherwise
    /// all.
    fn retry_unreadable(&self, retry: &mut ReadRetry) {
        if !retry.is_due(self.rt.now()) {
            return;
        }
        let most = if retry.failures < FAILURES {
            usize::MAX
        } else {
            1
        };
        self.commit.composer_mut().table.retry_unreadable(most);
    }

    fn decide(&self) -> CleaningDecision {
        let (streams, map) = (self.commit.composer(), self.map.borrow());
        if self.closing.get() || self.still.is_held() {
            CleaningDecision::Rest
        } else {
            self.pacing.borrow().decide(&streams, &map, self.rt.now())
        }
    }

    /// Waits for an event, at most until `at`.
    async fn until(&self, event: EventListener<'_>, at: Option<Instant>) {
        match at {
            None => event.await,
            Some(at) => {
                let now = self.rt.now();
                let _ = self.rt.timeout(at.since(now), event).await;
            }
        }
    }

    /// Returns true if a checkpoint frees segments, or lowers the reserve for the next checkpoint.
    pub(crate) fn checkpoint_helps(&self) -> bool {
        let (streams, map) = (self.commit.composer(), self.map.borrow());
        SpaceBudget::of(&streams, &map).checkpoint_helps(&streams.table)
    }

    /// Returns true if a checkpoint frees more segments than it takes, or allows the cleaner to continue.
    pub(crate) fn checkpoint_makes_room(&self) -> bool {
        let (streams, map) = (self.commit.composer(), self.map.borrow());
        SpaceBudget::of(&streams, &map).checkpoint_makes_room(&streams.table)
    }

    /// Reports a failure to read a segment. Waits if several consecutive segments could not be read.
    async fn back_off(&self, retry: &mut ReadRetry, error: &SpaceError) {
        if retry.failures == 0 {
            tracing::warn!(%error, "a segment cannot be emptied");
        }
        if matches!(error, SpaceError::Device(_)) {
            self.note_fault(&self.cleaner_fault, error);
        }
        retry.failed(self.rt.now());
        if retry.failures >= FAILURES
            && let Some(at) = retry.at
        {
            self.rt.sleep_until(at).await;
        }
    }

    /// Returns true if the records of moved data may end after a gain of `unsent` sectors. Each record costs a header,
    /// and on a full volume one emptied segment may gain no more sectors than a header has.
    fn is_worth_a_record(&self, unsent: u64) -> bool {
        unsent >= self.commit.composer().layout.dense_sectors()
    }

    /// Ends the records of moved data if `unsent` is not zero, so that the emptied segments become free.
    fn end_records(self: &Rc<Self>, unsent: &mut u64) {
        if !self.still.is_held() && std::mem::take(unsent) > 0 {
            self.free_emptied();
        }
    }

    /// Ends the records of moved data, and puts emptied segments on the allocation queue.
    fn free_emptied(self: &Rc<Self>) {
        self.send_off();
        self.replenish(0);
        self.commit.notify();
    }

    /// Empties a few segments if cleaning is worthwhile, and adds the gained sectors to `unsent`.
    async fn clean_window(
        self: &Rc<Self>,
        urgency: CleaningUrgency,
        unsent: &mut u64,
    ) -> Result<CleaningResult, SpaceError> {
        let _step = self.still.begin_step();
        let window = self.choose(urgency);
        let chosen = &window.chosen;
        if chosen.is_empty() {
            self.replenish(0);
            return Ok(if window.in_memory {
                CleaningResult::InMemory
            } else {
                CleaningResult::Nothing
            });
        }
        let sum =
            |part: fn(&CleaningSegment) -> u32| chosen.iter().map(|one| u64::from(part(one))).sum();
        let (gain, live) = (sum(|one| one.gain), sum(|one| one.live));
        self.pacing.borrow_mut().pacer.begin_window(gain, live);
        *unsent += gain.max(1);
        let moved = self.empty(chosen, window.moving).await;
        let pacer = &mut self.pacing.borrow_mut().pacer;
        pacer.end_window();
        // Emptied segments count as free now.
        pacer.freed(u64::MAX);
        moved?;
        Ok(CleaningResult::Some)
    }

    /// Empties a segment that is less worn than others, so that its slot is used. Returns true if a segment was
    /// emptied.
    async fn level_wear(self: &Rc<Self>) -> Result<bool, SpaceError> {
        if self.closing.get() || self.still.is_held() {
            return Ok(false);
        }
        let Some(unworn) = self.choose_unworn() else {
            return Ok(false);
        };
        let _step = self.still.begin_step();
        let before = self.stats.borrow().bytes_moved;
        let moving = MoveMode {
            one_stream: false,
            claim: SegmentClaim::Cleaner,
        };
        let moved = self.empty(&[unworn], moving).await;
        self.free_emptied();
        let stats = &mut self.stats.borrow_mut();
        stats.bytes_levelled += stats.bytes_moved - before;
        moved.map(|()| true)
    }

    /// Returns a segment to empty because it is less worn than others, if enough segments are queued.
    fn choose_unworn(&self) -> Option<CleaningSegment> {
        let mut streams = self.commit.composer_mut();
        let room = SpaceBudget::of(&streams, &self.map.borrow());
        if streams.table.queued() < room.low {
            return None;
        }
        let slot = streams.table.unworn()?;
        let (segment, live) = (streams.table.get(slot).seq, streams.table.live_in(slot));
        let in_memory = streams.flight().segment(segment).is_some();
        if in_memory || !streams.table.begin_cleaning(slot) {
            return None;
        }
        streams.table.pin(slot);
        Some(CleaningSegment {
            slot,
            segment,
            live,
            gain: 0,
        })
    }

    /// Moves the live data of segments. On every path, no segment stays in the state [`SegmentState::Cleaning`].
    async fn empty(
        self: &Rc<Self>,
        chosen: &[CleaningSegment],
        moving: MoveMode,
    ) -> Result<(), SpaceError> {
        let mut troubles = Vec::with_capacity(chosen.len());
        let mut pieces: Vec<LiveFragment> = Vec::new();
        let mut failed = false;
        for one in chosen {
            if failed {
                // The device fails: the remaining segments are tried another time.
                self.unpin(one.slot);
                self.commit.composer_mut().table.stop_cleaning(one.slot);
                continue;
            }
            let loaded = self.load_live(one.slot, one.segment).await;
            // The data is in memory now. If its segment is used again meanwhile, none of this data is still live.
            self.unpin(one.slot);
            let loaded = loaded.unwrap_or_else(|error| LoadedFragments {
                pieces: Vec::new(),
                trouble: Some(error),
            });
            failed = matches!(loaded.trouble, Some(SpaceError::Device(_)));
            pieces.extend(loaded.pieces);
            troubles.push(loaded.trouble);
            let sectors = self.commit.composer().layout.segment_sectors();
            self.record(sectors);
        }
        if self.placement.borrow().needs().order == MoveOrder::Age {
            pieces.sort_by_key(|piece| piece.born);
        }
        let mut moved = Ok(true);
        for piece in pieces {
            moved = self.move_piece(piece, moving).await;
            if !matches!(moved, Ok(true)) {
                break;
            }
        }
        let all = matches!(moved, Ok(true));
        let mut worst = moved.map(drop);
        for (one, trouble) in chosen.iter().zip(troubles) {
            self.end_cleaning(one, all, trouble.as_ref());
            if let Some(error) = trouble {
                worst = worst.and(Err(error));
            }
        }
        worst
    }

    fn end_cleaning(&self, one: &CleaningSegment, moved: bool, trouble: Option<&SpaceError>) {
        let mut streams = self.commit.composer_mut();
        let table = &mut streams.table;
        match trouble {
            _ if !moved => table.stop_cleaning(one.slot),
            None => table.end_cleaning(one.slot, None),
            Some(error) => {
                let later = matches!(error, SpaceError::Device(_));
                table.end_cleaning(one.slot, Some(later));
            }
        }
        drop(streams);
        self.tell_collected(one);
    }

    /// Reports sectors that were read or written for cleaning to the pacer.
    fn record(&self, sectors: u64) {
        let now = self.rt.now().as_nanos();
        self.pacing.borrow_mut().pacer.record(sectors, now);
    }

    /// Reports an emptied segment to the placement.
    fn tell_collected(&self, one: &CleaningSegment) {
        let streams = self.commit.composer();
        let segment = *streams.table.get(one.slot);
        if segment.seq != one.segment || streams.table.live_in(one.slot) > 0 {
            return;
        }
        self.stats.borrow_mut().segments_cleaned += 1;
        let collected = CollectedSegment {
            stream: StreamCounts::named(segment.stream),
            opened: segment.born,
            closed: segment.closed,
            now: streams.clock,
            live: one.live,
            capacity: streams.layout.dense_sectors() as u32,
        };
        self.placement.borrow_mut().collected(&collected);
    }

    /// Composes the moved data, so that it is written.
    pub(crate) fn send_off(self: &Rc<Self>) {
        let mut streams = self.commit.composer_mut();
        streams.end_inside();
        self.commit.appended(&mut streams, false);
        drop(streams);
        self.commit.has_work();
    }
}
