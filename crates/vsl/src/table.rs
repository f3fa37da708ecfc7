//! The table of segments: the state of each, how much of it is live, where a segment of a number lies.
//!
//! Invariants, which [`SegmentTable::check`] compares:
//! - A segment is in one state. The lists and counts by state follow from [`SegmentTable::enter`] and
//!   [`SegmentTable::leave`] alone, and a transition that [`SegmentState::may_become`] lacks is a panic.
//! - A number belongs to one segment for ever. A place of a number that no slot holds any more is *retired*: nothing is
//!   counted there, and nothing is read there.
//! - Segments are opened from the front of the *allocation queue* only: the list of free segments, in order, that the
//!   newest checkpoint has and records behind its cut continue. So recovery knows where to look for records.
//! - Nothing that recovery may need is overwritten. A segment to which something was written since the newest
//!   checkpoint's cut holds records to be applied, so it is [`SegmentState::Pending`] when it is empty. Any other empty segment
//!   is free as soon as the records that superseded its data are durable ([`SegmentState::Settling`]).
//! - `live` is the number of a segment's sectors that the map, or the newest checkpoint, points at.

mod check;
mod live;
mod uses;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use forebay_placement::WriteClock;
use forebay_placement::victim::{Closed, Selection, Victims};
use forebay_units::{RecordSeq, SegmentSeq};

use crate::chunks::Chunks;
use crate::format::Stream;
use crate::free::Free;
use crate::geometry::{Layout, Slot};
use crate::options::Options;
use crate::segment::{Frontier, Segment, SegmentPhase, SegmentState};
use crate::weight::weight;
use forebay_extents::Place;

/// The most segments on the allocation queue when a checkpoint is cut.
pub(crate) const QUEUE_MAX: usize = 4096;

/// What is known of a slot in memory only.
#[derive(Clone, Copy)]
pub(crate) struct SlotState {
    pub(crate) state: SegmentState,
    /// Reads under way of what it holds.
    pins: u32,
    /// Batches of blocks that are being written in place.
    in_place: u32,
    /// Sectors that the newest checkpoint wrote there beside nodes. The table on the device does not have them.
    meta: u32,
    /// Of an unreadable segment: it can be tried again.
    later: bool,
    /// It is counted in `SegmentTable::node_segments`.
    holds_nodes: bool,
}

/// What is known of all segments.
pub(crate) struct SegmentTable {
    layout: Layout,
    segments: Chunks,
    states: Vec<SlotState>,
    /// The slots of numbers that have places.
    slots: HashMap<SegmentSeq, Slot, NumberHash>,
    /// Segments in each state.
    counts: [usize; SegmentState::COUNT],
    /// The segments of the states that are looked through: see [`SegmentTable::list`].
    lists: [BTreeSet<Slot>; 5],
    free: Free,
    queue: VecDeque<Slot>,
    /// Settling segments, and the record that has to be durable.
    settling: VecDeque<(RecordSeq, Vec<Slot>)>,
    frontier: Frontier,
    /// Closed segments.
    victims: Victims,
    /// Sectors that are live, and how many of them nodes of the map take.
    live: u64,
    nodes: u64,
    /// The number of segments of nodes and checkpoints with live sectors, or being filled.
    node_segments: usize,
    /// The weight of all that is live.
    weight: u64,
    discards: bool,
    spare_part: u64,
    /// More was given up in a segment than was counted: counts are not to be trusted before they are counted anew.
    doubtful: bool,
}

impl SegmentTable {
    /// Of these segments, with the allocation queue. One in `spare_part` segments is kept free of mapped data.
    pub(crate) fn new(
        layout: Layout,
        spare_part: u64,
        segments: Vec<Segment>,
        queue: VecDeque<Slot>,
        options: &Options,
    ) -> SegmentTable {
        let wear = segments.iter().map(|segment| segment.wear).collect();
        let state = |segment: &Segment| SlotState {
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
            segments: Chunks::new(segments),
            slots: HashMap::default(),
            counts: [0; SegmentState::COUNT],
            lists: Default::default(),
            free: Free::new(wear, options),
            queue,
            settling: VecDeque::new(),
            frontier: Frontier::before_all(),
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
            let (slot, state) = (Slot(n as u32), table.states[n].state);
            let segment = *table.get(slot);
            table.live += u64::from(segment.live);
            table.weight += weight_of(&segment);
            // Records that recovery applies may still empty a segment that was queued behind the checkpoint.
            if state.has_number() || segment.live > 0 {
                table.slots.insert(segment.seq, slot);
            }
            table.enter(slot, state);
        }
        table
    }

    /// Adds free segments up to the number that `layout` has. The newest checkpoint has them already: nothing may be opened
    /// in a segment that recovery does not know of.
    pub(crate) fn grow(&mut self, layout: Layout) {
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
            self.enter(Slot(n as u32), SegmentState::Free);
        }
    }

    /// Which of the lists has the segments of a state.
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

    fn members(&self, state: SegmentState) -> &BTreeSet<Slot> {
        &self.lists[SegmentTable::list(state).expect("a state with a list")]
    }

    /// How many segments are in which state.
    pub(crate) fn describe(&self) -> String {
        let mut counts = std::collections::BTreeMap::new();
        for known in &self.states {
            *counts.entry(known.state).or_insert(0) += 1;
        }
        let largest = self
            .victims
            .choose(Selection::Greedy, WriteClock(0), 1, 1, 1);
        let gain = largest.first().map_or(0, |victim| victim.gain);
        format!(
            "{counts:?}; cleaning one gains {gain} of {} sectors",
            self.layout.dense_sectors()
        )
    }

    /// The number of segments in a state.
    pub(crate) fn count_of(&self, state: SegmentState) -> usize {
        self.counts[state as usize]
    }

    fn enter(&mut self, slot: Slot, state: SegmentState) {
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

    fn leave(&mut self, slot: Slot, state: SegmentState) {
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

    fn holds_nodes(&self, slot: Slot, state: SegmentState) -> bool {
        state.has_number() && !state.is_unused() && self.get(slot).stream == Stream::META
    }

    /// The one transition function.
    ///
    /// # Panics
    /// If there is no such transition.
    fn change(&mut self, slot: Slot, next: SegmentState) {
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

    fn add_victim(&mut self, slot: Slot) {
        let closed = Closed {
            capacity: self.layout.dense_sectors() as u32,
            live: self.weight_of(slot) as u32,
            closed: self.get(slot).closed,
        };
        self.victims.add(slot.0, closed);
    }

    /// The state that a full segment is in if nothing is being done to it.
    fn rest(&self, slot: Slot) -> SegmentState {
        match self.live_in(slot) > 0 {
            true => SegmentState::Closed,
            false if self.frontier.is_past(self.get(slot).seq) => SegmentState::Empty,
            false => SegmentState::Pending,
        }
    }

    /// The segments, for a checkpoint.
    pub(crate) fn segments(&mut self) -> &mut Chunks {
        &mut self.segments
    }

    /// The number of segments.
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    /// What is known of a segment.
    pub(crate) fn get(&self, slot: Slot) -> &Segment {
        self.segments.get(slot)
    }

    /// What a segment is doing.
    pub(crate) fn state(&self, slot: Slot) -> SegmentState {
        self.states[slot.0 as usize].state
    }

    /// The slot of a number; `None` if the number is retired.
    pub(crate) fn slot_of(&self, segment: SegmentSeq) -> Option<Slot> {
        self.slots.get(&segment).copied()
    }

    /// The slot of the segment that a place lies in; `None` if the place is retired.
    pub(crate) fn slot_at(&self, place: Place) -> Option<Slot> {
        self.slot_of(self.layout.segment_of(place))
    }

    /// The byte of the device at which a place lies; `None` if the place is retired.
    pub(crate) fn byte_at(&self, place: Place) -> Option<u64> {
        let slot = self.slot_at(place)?;
        Some(self.layout.slot_at(slot) + u64::from(self.layout.offset_of(place)))
    }

    /// Sectors that are live.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Sectors that data takes at most once it is cleaned, and what checkpoints write beside nodes.
    pub(crate) fn data_weight(&self) -> u64 {
        self.weight.saturating_sub(self.nodes)
    }

    /// Sectors that everything live takes at most.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// Segments that checkpoints wrote to and that are not empty.
    pub(crate) fn node_segments(&self) -> usize {
        self.node_segments
    }

    /// Segments on the allocation queue.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The allocation queue.
    pub(crate) fn queue(&self) -> impl Iterator<Item = Slot> {
        self.queue.iter().copied()
    }

    /// Segments in which nothing is live, but for those being filled.
    pub(crate) fn unused(&self) -> usize {
        use SegmentState::{Discarding, Empty, Free, Pending, Pinned, Queued, Settling, Stale};
        let unused = [
            Free, Stale, Discarding, Pinned, Queued, Pending, Empty, Settling,
        ];
        unused.into_iter().map(|state| self.count_of(state)).sum()
    }

    /// Segments that can be queued without another checkpoint, now or soon.
    pub(crate) fn usable(&self) -> usize {
        use SegmentState::{Discarding, Empty, Free, Settling, Stale};
        let usable = [Free, Stale, Discarding, Empty, Settling];
        usable.into_iter().map(|state| self.count_of(state)).sum()
    }

    /// Segments that may be queued at once.
    pub(crate) fn free(&self) -> usize {
        self.count_of(SegmentState::Free)
    }

    /// Opens the next segment of the allocation queue.
    ///
    /// # Panics
    /// If the queue is empty.
    pub(crate) fn open(&mut self, stream: Stream, seq: SegmentSeq, now: WriteClock) -> Slot {
        let slot = self.queue.pop_front().expect("the queue was looked at");
        assert_eq!(
            self.state(slot),
            SegmentState::Queued,
            "{slot:?} was queued"
        );
        self.begin(slot, stream, seq, now);
        slot
    }

    fn begin(&mut self, slot: Slot, stream: Stream, seq: SegmentSeq, now: WriteClock) {
        self.free.opened(slot);
        let opened = self.get(slot).opened(stream, seq, now);
        *self.segments.get_mut(slot) = opened;
        self.slots.insert(seq, slot);
        self.change(slot, SegmentState::Open);
    }

    /// Recovery has come to the first record of a segment that was opened behind the checkpoint's cut. What its slot
    /// held before is retired: every record that emptied it has been applied, but for `detached` subtrees, of which
    /// nothing was given up yet.
    pub(crate) fn reopen(
        &mut self,
        slot: Slot,
        stream: Stream,
        seq: SegmentSeq,
        now: WriteClock,
        detached: bool,
    ) {
        self.retire(slot, detached);
        self.begin(slot, stream, seq, now);
    }

    fn retire(&mut self, slot: Slot, detached: bool) {
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

    /// Recovery has applied all records: what queued segments held is retired.
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

    fn doubt(&mut self, slot: Slot, why: &'static str) {
        if !std::mem::replace(&mut self.doubtful, true) {
            tracing::warn!(?slot, "{why}; what is live is counted anew");
        }
    }

    /// True if what is live has to be counted anew.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// What is appended now was written by users at this time, on average, as far as the segment is filled.
    pub(crate) fn set_born(&mut self, slot: Slot, born: WriteClock) {
        self.segments.get_mut(slot).born = born;
    }

    /// The segment takes no more.
    pub(crate) fn close(&mut self, slot: Slot, now: WriteClock) {
        self.segments.get_mut(slot).closed = now;
        self.change(slot, self.rest(slot));
    }

    /// No segment takes any more.
    pub(crate) fn close_all(&mut self) {
        for n in 0..self.len() {
            let slot = Slot(n as u32);
            if self.state(slot) == SegmentState::Open {
                self.close(slot, self.get(slot).closed);
            }
        }
    }
}

/// Hashes numbers of segments, which no client chooses, in one multiplication.
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

fn weight_of(segment: &Segment) -> u64 {
    weight(segment.live.into(), segment.units.into())
}
