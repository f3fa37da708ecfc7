//! Operations on segments: cleaning, writes in place, settling, discards, queueing, reads.

use std::ops::Range;

use forebay_placement::WriteClock;
use forebay_placement::victim::{CleaningVictim, VictimSelection};
use forebay_units::{RecordSeq, SegmentSeq};

use super::SegmentTable;
use crate::format::StreamNumber;
use crate::geometry::SegmentSlot;
use crate::segment::{CheckpointFrontier, SegmentState};

/// Minimum number of segments that are kept free of mapped data.
const SPARE_MIN: u64 = 3;

impl SegmentTable {
    /// Returns the number of segments for each segment that is kept free of mapped data.
    pub(crate) fn spare_part(&self) -> u64 {
        self.spare_part
    }

    /// Sets the number of segments for each spare segment. Returns the old number.
    pub(crate) fn set_spare_part(&mut self, spare_part: u64) -> u64 {
        std::mem::replace(&mut self.spare_part, spare_part)
    }

    /// Returns the number of segments that are kept free of mapped data, so that some segments have little live data.
    /// The minimum is `SPARE_MIN`: if cleaning all segments once gained less than its records and the checkpoint write,
    /// cleaning would never end.
    pub(crate) fn spare(&self) -> u64 {
        (self.len() as u64).div_ceil(self.spare_part).max(SPARE_MIN)
    }

    /// Returns segments to clean, best first, until they gain `wanted` sectors or their number is `most`. Each gains at
    /// least `least` sectors.
    pub(crate) fn choose(
        &self,
        selection: VictimSelection,
        now: WriteClock,
        wanted: u64,
        most: usize,
        least: u32,
    ) -> Vec<CleaningVictim> {
        self.victims.choose(selection, now, wanted, most, least)
    }

    /// Returns segments of nodes that gain at least `least` sectors, largest gain first.
    pub(crate) fn choose_of_nodes(&self, least: u32) -> Vec<CleaningVictim> {
        let now = WriteClock(0);
        let mut all = self.choose(VictimSelection::Greedy, now, u64::MAX, usize::MAX, least);
        all.retain(|victim| self.get(SegmentSlot(victim.segment)).stream == StreamNumber::META);
        all
    }

    /// Returns half of the average gain of all segments on a full volume. So some segment always gains this amount.
    pub(crate) fn worth(&self) -> u32 {
        (self.layout.dense_sectors() * self.spare() / (2 * self.len() as u64)).max(1) as u32
    }

    /// Returns the sectors that cleaning all segments would gain.
    pub(crate) fn gain(&self) -> u64 {
        self.victims.reclaimable()
    }

    /// Returns the numbers of closed segments by utilisation in tenths.
    pub(crate) fn histogram(&self) -> [u32; 11] {
        self.victims.histogram()
    }

    /// Returns true if a segment can be used again only after a checkpoint, once it is empty.
    pub(crate) fn needs_checkpoint(&self, slot: SegmentSlot) -> bool {
        !self.frontier.is_past(self.get(slot).seq)
    }

    /// Begins to clean a segment. Returns false if another operation on the segment is in progress.
    pub(crate) fn begin_cleaning(&mut self, slot: SegmentSlot) -> bool {
        let may = self.state(slot) == SegmentState::Closed;
        if may {
            self.change(slot, SegmentState::Cleaning);
        }
        may
    }

    /// Ends the cleaning of a segment after all readable data was moved. If some data was `unreadable`, the value is
    /// true if the segment can be tried again later.
    pub(crate) fn end_cleaning(&mut self, slot: SegmentSlot, unreadable: Option<bool>) {
        if self.state(slot) != SegmentState::Cleaning {
            return;
        }
        self.states[slot.0 as usize].later = unreadable == Some(true);
        let next = match (self.rest(slot), unreadable) {
            (SegmentState::Closed, Some(_)) => SegmentState::Unreadable,
            (SegmentState::Closed, None) => SegmentState::Cleaned,
            (empty, _) => empty,
        };
        self.change(slot, next);
    }

    /// Ends the cleaning of a segment without a result. The segment can be chosen again.
    pub(crate) fn stop_cleaning(&mut self, slot: SegmentSlot) {
        if self.state(slot) == SegmentState::Cleaning {
            self.change(slot, self.rest(slot));
        }
    }

    /// Makes at most `most` segments available again that were not cleaned because of a device error.
    pub(crate) fn retry_unreadable(&mut self, most: usize) {
        let unreadable = self.members(SegmentState::Unreadable).iter();
        let slots: Vec<SegmentSlot> = unreadable
            .copied()
            .filter(|slot| self.states[slot.0 as usize].later)
            .take(most)
            .collect();
        for slot in slots {
            self.change(slot, self.rest(slot));
        }
    }

    /// Returns a full segment with so little wear that its contents should move, if wear levelling is due.
    pub(crate) fn unworn(&mut self) -> Option<SegmentSlot> {
        let states = &self.states;
        self.free
            .unworn(|slot| states[slot.0 as usize].state == SegmentState::Closed)
    }

    /// Returns the numbers of openings of the least and the most worn slot.
    pub(crate) fn wear(&self) -> (u32, u32) {
        self.free.extremes()
    }

    /// Returns the slot of a segment if its garbage blocks may be overwritten in place: it is full, has live data, and
    /// is not being cleaned.
    pub(crate) fn may_overwrite(&self, segment: SegmentSeq) -> Option<SegmentSlot> {
        let slot = self.slot_of(segment)?;
        let may = match self.state(slot) {
            SegmentState::Closed => true,
            SegmentState::InPlace => self.live_in(slot) > 0,
            _ => false,
        };
        may.then_some(slot)
    }

    /// Begins a write in place to a segment. The segment is neither cleaned nor opened until
    /// [`SegmentTable::end_in_place`]. [`SegmentTable::may_overwrite`] must have allowed the write.
    pub(crate) fn begin_in_place(&mut self, slot: SegmentSlot) {
        self.states[slot.0 as usize].in_place += 1;
        if self.state(slot) == SegmentState::Closed {
            self.change(slot, SegmentState::InPlace);
        }
    }

    /// Ends a write in place, successful or not.
    pub(crate) fn end_in_place(&mut self, slot: SegmentSlot) {
        let known = &mut self.states[slot.0 as usize];
        known.in_place -= 1;
        if known.in_place == 0 {
            self.change(slot, self.rest(slot));
        }
    }

    /// Makes empty segments that need no checkpoint settle until a record is durable. Returns true if any segment
    /// settles.
    pub(crate) fn settle(&mut self, until: RecordSeq) -> bool {
        let slots: Vec<SegmentSlot> = if self.doubtful {
            // These segments can have live data after all.
            Vec::new()
        } else {
            self.members(SegmentState::Empty).iter().copied().collect()
        };
        if slots.is_empty() {
            return false;
        }
        for slot in &slots {
            self.change(*slot, SegmentState::Settling);
        }
        self.settling.push_back((until, slots));
        true
    }

    /// Returns true if a segment can settle.
    pub(crate) fn can_settle(&self) -> bool {
        !self.doubtful && self.count_of(SegmentState::Empty) > 0
    }

    /// Returns the record that the first settling segments wait for.
    pub(crate) fn settles_with(&self) -> Option<RecordSeq> {
        self.settling.front().map(|(until, _)| *until)
    }

    /// Frees settled segments after every record up to `stable` is durable.
    pub(crate) fn settled(&mut self, stable: RecordSeq) {
        while let Some((until, _)) = self.settling.front()
            && *until <= stable
        {
            let (_, slots) = self.settling.pop_front().expect("the queue is not empty");
            for slot in slots {
                debug_assert_eq!(self.live_in(slot), 0);
                if self.states[slot.0 as usize].pins > 0 {
                    self.change(slot, SegmentState::Pinned);
                } else {
                    self.release(slot);
                }
            }
        }
    }

    /// Frees a segment that is no longer needed.
    fn release(&mut self, slot: SegmentSlot) {
        let next = if self.discards {
            SegmentState::Stale
        } else {
            SegmentState::Free
        };
        self.change(slot, next);
    }

    /// Takes at most `most` free segments to discard, in order.
    pub(crate) fn take_stale(&mut self, most: usize) -> Vec<SegmentSlot> {
        let stale = self.members(SegmentState::Stale).iter().take(most);
        let stale: Vec<SegmentSlot> = stale.copied().collect();
        for slot in &stale {
            self.change(*slot, SegmentState::Discarding);
        }
        stale
    }

    /// Takes at most `most` free segments of `slots` to discard again. At least half of the free segments stay free.
    pub(crate) fn take_free_of(&mut self, slots: Range<u32>, most: usize) -> Vec<SegmentSlot> {
        let most = most.min(self.free() / 2);
        let is_free = |slot: &SegmentSlot| self.state(*slot) == SegmentState::Free;
        let all = slots.start..slots.end.min(self.states.len() as u32);
        let taken: Vec<SegmentSlot> = all.map(SegmentSlot).filter(is_free).take(most).collect();
        for slot in &taken {
            self.change(*slot, SegmentState::Discarding);
        }
        taken
    }

    /// Frees segments after their discard.
    pub(crate) fn discarded(&mut self, slots: &[SegmentSlot]) {
        for slot in slots {
            self.change(*slot, SegmentState::Free);
        }
    }

    /// Takes at most `most` free segments to queue, least worn first.
    pub(crate) fn take_free(&mut self, most: usize) -> Vec<SegmentSlot> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(slot) = self.free.take()
        {
            self.change(slot, SegmentState::Queued);
            taken.push(slot);
        }
        taken
    }

    /// Adds free segments to the allocation queue.
    pub(crate) fn extend(&mut self, slots: Vec<SegmentSlot>) {
        self.queue.extend(slots);
    }

    /// Updates states after the checkpoint that was cut at `frontier` became valid.
    pub(crate) fn pass(&mut self, frontier: CheckpointFrontier) {
        self.frontier = frontier;
        let cleaned = self.members(SegmentState::Cleaned).iter();
        let waiting: Vec<SegmentSlot> = cleaned
            .chain(self.members(SegmentState::Pending))
            .copied()
            .collect();
        for slot in waiting {
            let rest = self.rest(slot);
            if rest != self.state(slot) {
                self.change(slot, rest);
            }
        }
    }

    /// Prevents a segment from being used again while it is read.
    pub(crate) fn pin(&mut self, slot: SegmentSlot) {
        self.states[slot.0 as usize].pins += 1;
    }

    /// Ends a read. Returns true if this freed the segment.
    pub(crate) fn unpin(&mut self, slot: SegmentSlot) -> bool {
        let known = &mut self.states[slot.0 as usize];
        known.pins -= 1;
        let freed = known.pins == 0 && known.state == SegmentState::Pinned;
        if freed {
            self.release(slot);
        }
        freed
    }
}
