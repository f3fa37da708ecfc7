//! The table of segments: the state, the live sectors and the slot of each segment.
//!
//! Invariants, checked by [`SegmentTable::check`]:
//! - A segment is in one state. Only [`SegmentTable::enter`] and [`SegmentTable::leave`] change the lists and counts by
//!   state. A transition that [`SegmentState::may_become`] does not allow is a panic.
//! - A number belongs to one segment forever. A place is *retired* if no slot has its segment number any more. Retired
//!   places are neither counted nor read.
//! - Segments are opened only from the front of the *allocation queue*. This ordered list of free segments is in the
//!   newest checkpoint, and records behind its cut continue the list. So recovery can find the records.
//! - Data that recovery may need is not overwritten. A segment that was written since the newest checkpoint's cut has
//!   records to be applied, so it becomes [`SegmentState::Pending`] when it is empty. Any other empty segment is free
//!   as soon as the records that superseded its data are durable ([`SegmentState::Settling`]).
//! - `live` is the number of a segment's sectors that the map, or the newest checkpoint, points at.

mod check;
mod live;
mod uses;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use forebay_placement::WriteClock;
use forebay_placement::victim::{ClosedSegment, VictimSelection, Victims};
use forebay_units::{RecordSeq, SegmentSeq};

use crate::chunks::SegmentChunks;
use crate::format::StreamNumber;
use crate::free::FreeSegments;
use crate::geometry::{SegmentLayout, SegmentSlot};
use crate::options::SpaceSettings;
use crate::segment::{CheckpointFrontier, SegmentEntry, SegmentPhase, SegmentState};
use crate::weight::weight;
use forebay_extent_map::LogPlace;

/// Maximum number of segments on the allocation queue when a checkpoint is cut.
pub(crate) const QUEUE_MAX: usize = 4096;

/// State of a slot that is kept only in memory.
#[derive(Clone, Copy)]
pub(crate) struct SlotState {
    pub(crate) state: SegmentState,
    /// Number of reads of the slot in progress.
    pins: u32,
    /// Number of batches of writes in place in progress.
    in_place: u32,
    /// Sectors in the slot that the newest checkpoint wrote beside nodes. The table on the device does not include
    /// them.
    meta: u32,
    /// True if an unreadable segment can be tried again.
    later: bool,
    /// True if the slot is counted in `SegmentTable::node_segments`.
    holds_nodes: bool,
}

/// The states of all segments.
pub(crate) struct SegmentTable {
    layout: SegmentLayout,
    segments: SegmentChunks,
    states: Vec<SlotState>,
    /// The slots of numbers that have places.
    slots: HashMap<SegmentSeq, SegmentSlot, NumberHash>,
    /// Number of segments in each state.
    counts: [usize; SegmentState::COUNT],
    /// The segments of states that are searched: see [`SegmentTable::list`].
    lists: [BTreeSet<SegmentSlot>; 5],
    free: FreeSegments,
    queue: VecDeque<SegmentSlot>,
    /// Settling segments, and the record that must be durable for each group.
    settling: VecDeque<(RecordSeq, Vec<SegmentSlot>)>,
    frontier: CheckpointFrontier,
    /// Closed segments.
    victims: Victims,
    /// Live sectors, and the part of them that are nodes of the map.
    live: u64,
    nodes: u64,
    /// Number of segments of nodes and checkpoints that have live sectors or are being filled.
    node_segments: usize,
    /// Weight of all live data.
    weight: u64,
    discards: bool,
    spare_part: u64,
    /// True if more sectors were released in a segment than were counted. The counts cannot be trusted until live data
    /// is counted again.
    doubtful: bool,
}

impl SegmentTable {
    /// Creates the table from its segments and the allocation queue. One of `spare_part` segments is kept free of
    /// mapped data.
    pub(crate) fn new(
        layout: SegmentLayout,
        spare_part: u64,
        segments: Vec<SegmentEntry>,
        queue: VecDeque<SegmentSlot>,
        options: &SpaceSettings,
    ) -> SegmentTable {
        let wear = segments.iter().map(|segment| segment.wear).collect();
        let state = |segment: &SegmentEntry| SlotState {
            state: match segment.phase {
                SegmentPhase::Free => SegmentState::Free,
                SegmentPhase::Queued => SegmentState::Queued,
                SegmentPhase::Open => SegmentState::Open,
                SegmentPhase::Closed if segment.live > 0 => SegmentState::Closed,
                SegmentPhase::Closed => SegmentState::Pending,
            },
            pins: 0,
            in_place: 0,
            meta: 0,
            later: false,
            holds_nodes: false,
        };
        let mut table = SegmentTable {
            layout,
            states: segments.iter().map(state).collect(),
            segments: SegmentChunks::new(segments),
            slots: HashMap::default(),
            counts: [0; SegmentState::COUNT],
            lists: Default::default(),
            free: FreeSegments::new(wear, options),
            queue,
            settling: VecDeque::new(),
            frontier: CheckpointFrontier::before_all(),
            victims: Victims::new(),
            live: 0,
            nodes: 0,
            node_segments: 0,
            weight: 0,
            discards: options.discard,
            spare_part,
            doubtful: false,
        };
        for n in 0..table.states.len() {
            let (slot, state) = (SegmentSlot(n as u32), table.states[n].state);
            let segment = *table.get(slot);
            table.live += u64::from(segment.live);
            table.weight += weight_of(&segment);
            // A segment that was queued behind the checkpoint can still have live data. Records that recovery applies
            // then empty it.
            if state.has_number() || segment.live > 0 {
                table.slots.insert(segment.seq, slot);
            }
            table.enter(slot, state);
        }
        table
    }

    /// Adds free segments up to the number in `layout`. The newest checkpoint already contains them: no segment may be
    /// opened that recovery does not know of.
    pub(crate) fn grow(&mut self, layout: SegmentLayout) {
        let (before, count) = (self.len(), layout.segment_count as usize);
        self.layout = layout;
        self.segments.grow(count, true);
        self.free.grow(count);
        for n in before..count {
            self.states.push(SlotState {
                state: SegmentState::Free,
                pins: 0,
                in_place: 0,
                meta: 0,
                later: false,
                holds_nodes: false,
            });
            self.enter(SegmentSlot(n as u32), SegmentState::Free);
        }
    }

    /// Returns the index of the list with the segments of a state.
    fn list(state: SegmentState) -> Option<usize> {
        match state {
            SegmentState::Stale => Some(0),
            SegmentState::Cleaned => Some(1),
            SegmentState::Unreadable => Some(2),
            SegmentState::Pending => Some(3),
            SegmentState::Empty => Some(4),
            _ => None,
        }
    }

    fn members(&self, state: SegmentState) -> &BTreeSet<SegmentSlot> {
        &self.lists[SegmentTable::list(state).expect("a state with a list")]
    }

    /// Describes the number of segments in each state.
    pub(crate) fn describe(&self) -> String {
        let mut counts = std::collections::BTreeMap::new();
        for known in &self.states {
            *counts.entry(known.state).or_insert(0) += 1;
        }
        let largest = self
            .victims
            .choose(VictimSelection::Greedy, WriteClock(0), 1, 1, 1);
        let gain = largest.first().map_or(0, |victim| victim.gain);
        format!(
            "{counts:?}; cleaning one gains {gain} of {} sectors",
            self.layout.dense_sectors()
        )
    }

    /// Returns the number of segments in a state.
    pub(crate) fn count_of(&self, state: SegmentState) -> usize {
        self.counts[state as usize]
    }

    fn enter(&mut self, slot: SegmentSlot, state: SegmentState) {
        self.counts[state as usize] += 1;
        let holds_nodes = self.holds_nodes(slot, state);
        self.states[slot.0 as usize].holds_nodes = holds_nodes;
        self.node_segments += usize::from(holds_nodes);
        if let Some(list) = SegmentTable::list(state) {
            self.lists[list].insert(slot);
        }
        match state {
            SegmentState::Closed => self.add_victim(slot),
            SegmentState::Free => self.free.add(slot),
            _ => {}
        }
    }

    fn leave(&mut self, slot: SegmentSlot, state: SegmentState) {
        self.counts[state as usize] -= 1;
        let known = &mut self.states[slot.0 as usize];
        self.node_segments -= usize::from(std::mem::take(&mut known.holds_nodes));
        if let Some(list) = SegmentTable::list(state) {
            self.lists[list].remove(&slot);
        }
        match state {
            SegmentState::Closed => _ = self.victims.remove(slot.0),
            SegmentState::Free => self.free.remove(slot),
            _ => {}
        }
    }

    fn holds_nodes(&self, slot: SegmentSlot, state: SegmentState) -> bool {
        state.has_number() && !state.is_unused() && self.get(slot).stream == StreamNumber::META
    }

    /// Changes the state of a segment. This is the only transition function.
    ///
    /// # Panics
    /// The transition is not allowed.
    fn change(&mut self, slot: SegmentSlot, next: SegmentState) {
        let now = self.state(slot);
        assert!(now.may_become(next), "{slot:?}: {now:?} became {next:?}");
        self.leave(slot, now);
        self.states[slot.0 as usize].state = next;
        if now.has_number() && !next.has_number() {
            let number = self.get(slot).seq;
            self.slots.remove(&number);
        }
        if self.get(slot).phase != next.phase() {
            self.segments.get_mut(slot).phase = next.phase();
        }
        self.enter(slot, next);
    }

    fn add_victim(&mut self, slot: SegmentSlot) {
        let closed = ClosedSegment {
            capacity: self.layout.dense_sectors() as u32,
            live: self.weight_of(slot) as u32,
            closed: self.get(slot).closed,
        };
        self.victims.add(slot.0, closed);
    }

    /// Returns the state of a full segment without an operation in progress.
    fn rest(&self, slot: SegmentSlot) -> SegmentState {
        if self.live_in(slot) > 0 {
            SegmentState::Closed
        } else if self.frontier.is_past(self.get(slot).seq) {
            SegmentState::Empty
        } else {
            SegmentState::Pending
        }
    }

    /// Returns the segments, for a checkpoint.
    pub(crate) fn segments(&mut self) -> &mut SegmentChunks {
        &mut self.segments
    }

    /// Returns the number of segments.
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    /// Returns the entry of a segment.
    pub(crate) fn get(&self, slot: SegmentSlot) -> &SegmentEntry {
        self.segments.get(slot)
    }

    /// Returns the state of a segment.
    pub(crate) fn state(&self, slot: SegmentSlot) -> SegmentState {
        self.states[slot.0 as usize].state
    }

    /// Returns the slot of a number. `None` if the number is retired.
    pub(crate) fn slot_of(&self, segment: SegmentSeq) -> Option<SegmentSlot> {
        self.slots.get(&segment).copied()
    }

    /// Returns the slot of the segment that contains a place. `None` if the place is retired.
    pub(crate) fn slot_at(&self, place: LogPlace) -> Option<SegmentSlot> {
        self.slot_of(self.layout.segment_of(place))
    }

    /// Returns the byte of the device at which a place lies. `None` if the place is retired.
    pub(crate) fn byte_at(&self, place: LogPlace) -> Option<u64> {
        let slot = self.slot_at(place)?;
        Some(self.layout.slot_at(slot) + u64::from(self.layout.offset_of(place)))
    }

    /// Returns the live sectors.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Returns the maximum of sectors that data takes once it is cleaned, including the parts of checkpoints beside
    /// nodes.
    pub(crate) fn data_weight(&self) -> u64 {
        self.weight.saturating_sub(self.nodes)
    }

    /// Returns the maximum of sectors that all live data takes.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// Returns the number of segments with checkpoints' writes that are not empty.
    pub(crate) fn node_segments(&self) -> usize {
        self.node_segments
    }

    /// Returns the number of segments on the allocation queue.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns the allocation queue.
    pub(crate) fn queue(&self) -> impl Iterator<Item = SegmentSlot> {
        self.queue.iter().copied()
    }

    /// Returns the number of segments without live data, except those being filled.
    pub(crate) fn unused(&self) -> usize {
        use SegmentState::{Discarding, Empty, Free, Pending, Pinned, Queued, Settling, Stale};
        let unused = [
            Free, Stale, Discarding, Pinned, Queued, Pending, Empty, Settling,
        ];
        unused.into_iter().map(|state| self.count_of(state)).sum()
    }

    /// Returns the number of segments that can be queued without another checkpoint, now or soon.
    pub(crate) fn usable(&self) -> usize {
        use SegmentState::{Discarding, Empty, Free, Settling, Stale};
        let usable = [Free, Stale, Discarding, Empty, Settling];
        usable.into_iter().map(|state| self.count_of(state)).sum()
    }

    /// Returns the number of segments that can be queued at once.
    pub(crate) fn free(&self) -> usize {
        self.count_of(SegmentState::Free)
    }

    /// Opens the next segment of the allocation queue.
    ///
    /// # Panics
    /// The queue is empty.
    pub(crate) fn open(
        &mut self,
        stream: StreamNumber,
        seq: SegmentSeq,
        now: WriteClock,
    ) -> SegmentSlot {
        let slot = self.queue.pop_front().expect("the queue is not empty");
        assert_eq!(
            self.state(slot),
            SegmentState::Queued,
            "{slot:?} is not queued"
        );
        self.begin(slot, stream, seq, now);
        slot
    }

    fn begin(&mut self, slot: SegmentSlot, stream: StreamNumber, seq: SegmentSeq, now: WriteClock) {
        self.free.opened(slot);
        let opened = self.get(slot).opened(stream, seq, now);
        *self.segments.get_mut(slot) = opened;
        self.slots.insert(seq, slot);
        self.change(slot, SegmentState::Open);
    }

    /// Opens a segment again when recovery reaches its first record behind the checkpoint's cut. The slot's old
    /// contents are retired: every record that emptied the slot has been applied. The places of `detached` subtrees are
    /// an exception, since they are not released yet.
    pub(crate) fn reopen(
        &mut self,
        slot: SegmentSlot,
        stream: StreamNumber,
        seq: SegmentSeq,
        now: WriteClock,
        detached: bool,
    ) {
        self.retire(slot, detached);
        self.begin(slot, stream, seq, now);
    }

    fn retire(&mut self, slot: SegmentSlot, detached: bool) {
        let segment = *self.get(slot);
        if segment.live > 0 && !detached {
            self.doubt(slot, "a segment that recovery found live was used again");
        }
        self.live -= u64::from(segment.live);
        self.weight -= weight_of(&segment);
        if self.slots.get(&segment.seq) == Some(&slot) {
            self.slots.remove(&segment.seq);
        }
        let known = self.segments.get_mut(slot);
        (known.live, known.units) = (0, 0);
    }

    /// Retires the old contents of queued segments after recovery has applied all records.
    pub(crate) fn retire_queued(&mut self, detached: bool) {
        for n in 0..self.queue.len() {
            let slot = self.queue[n];
            if self.get(slot).live > 0 {
                self.retire(slot, detached);
            }
            let number = self.get(slot).seq;
            if self.slots.get(&number) == Some(&slot) {
                self.slots.remove(&number);
            }
        }
    }

    fn doubt(&mut self, slot: SegmentSlot, why: &'static str) {
        if !std::mem::replace(&mut self.doubtful, true) {
            tracing::warn!(slot = slot.0, "{why}; live data is counted again");
        }
    }

    /// Returns true if live data must be counted again.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Sets the average time at which clients wrote the data of a segment so far.
    pub(crate) fn set_born(&mut self, slot: SegmentSlot, born: WriteClock) {
        self.segments.get_mut(slot).born = born;
    }

    /// Closes a segment.
    pub(crate) fn close(&mut self, slot: SegmentSlot, now: WriteClock) {
        self.segments.get_mut(slot).closed = now;
        self.change(slot, self.rest(slot));
    }

    /// Closes all open segments.
    pub(crate) fn close_all(&mut self) {
        for n in 0..self.len() {
            let slot = SegmentSlot(n as u32);
            if self.state(slot) == SegmentState::Open {
                self.close(slot, self.get(slot).closed);
            }
        }
    }
}

/// Hashes numbers of segments in one multiplication. Clients cannot choose these numbers.
type NumberHash = BuildHasherDefault<NumberHasher>;

#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32);
    }
}

fn weight_of(segment: &SegmentEntry) -> u64 {
    weight(segment.live.into(), segment.units.into())
}
