//! What is known of each segment: what it is for, how much of it is live, when it was filled, how worn it is.
//!
//! Invariants:
//! - A segment is opened only from the front of the *runway*: the list of free segments, in order, that the
//!   checkpoint names to which both superblocks lead. So recovery knows where to look for what was
//!   written since, and nothing that it may need is ever overwritten.
//! - Only what was free at a checkpoint's cut is put behind that checkpoint's runway, and may be opened once
//!   both superblocks lead to it.
//! - `live` counts the sectors of a segment that the map, or the newest checkpoint, points at.

use forebay_placement::WriteClock;
use std::collections::{BTreeSet, VecDeque};

use forebay_units::SegmentSeq;

use crate::format::Stream;
use crate::geometry::{Layout, Slot};
use crate::place::Place;

/// The most segments that a runway names.
pub(crate) const RUNWAY_MAX: usize = 4096;

/// What a segment is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentState {
    /// Nothing in it is needed, and it is not in the runway.
    Free,
    /// It is free, and will be opened in its turn.
    Runway,
    /// It is being filled.
    Open,
    /// It is full, or was being filled when the volume stopped.
    Closed,
}

/// What is known of a segment, as the table on the medium has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// What it is doing.
    pub(crate) state: SegmentState,
    /// The stream it is of, or was of last.
    pub(crate) stream: Stream,
    /// Sectors that are live.
    pub(crate) live: u32,
    /// Its number in the order in which segments were opened.
    pub(crate) seq: SegmentSeq,
    /// When it was opened.
    pub(crate) opened: WriteClock,
    /// When it was closed.
    pub(crate) closed: WriteClock,
    /// How often it was opened.
    pub(crate) wear: u32,
}

impl Segment {
    /// One that was never used.
    pub(crate) const NEW: Segment = Segment {
        state: SegmentState::Free,
        stream: Stream(0),
        live: 0,
        seq: SegmentSeq(0),
        opened: WriteClock(0),
        closed: WriteClock(0),
        wear: 0,
    };
}

/// The table of segments.
pub(crate) struct Usage {
    layout: Layout,
    segments: Vec<Segment>,
    /// Readers of each segment.
    pins: Vec<u32>,
    /// Free segments that are not in the runway, least worn first.
    free: BTreeSet<(u32, Slot)>,
    runway: VecDeque<Slot>,
    /// Closed segments in which nothing is live.
    empty: BTreeSet<Slot>,
    live: u64,
    closed: u32,
}

impl Usage {
    /// Of these segments, with what is to be used first.
    pub(crate) fn new(layout: Layout, segments: Vec<Segment>, runway: VecDeque<Slot>) -> Usage {
        let mut usage = Usage {
            layout,
            pins: vec![0; segments.len()],
            segments,
            free: BTreeSet::new(),
            runway,
            empty: BTreeSet::new(),
            live: 0,
            closed: 0,
        };
        for (n, segment) in usage.segments.iter().enumerate() {
            let slot = Slot(n as u32);
            usage.live += u64::from(segment.live);
            match segment.state {
                SegmentState::Free => {
                    usage.free.insert((segment.wear, slot));
                }
                SegmentState::Closed => {
                    usage.closed += 1;
                    if segment.live == 0 {
                        usage.empty.insert(slot);
                    }
                }
                SegmentState::Open | SegmentState::Runway => {}
            }
        }
        usage
    }

    /// What is known of a segment.
    pub(crate) fn get(&self, slot: Slot) -> &Segment {
        &self.segments[slot.0 as usize]
    }

    /// All segments, by their slots.
    pub(crate) fn all(&self) -> &[Segment] {
        &self.segments
    }

    fn at(&mut self, slot: Slot) -> &mut Segment {
        &mut self.segments[slot.0 as usize]
    }

    /// Sectors that are live.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Segments that can be opened before the next checkpoint.
    pub(crate) fn runway(&self) -> usize {
        self.runway.len()
    }

    /// What will be opened, in order.
    pub(crate) fn runway_slots(&self) -> impl Iterator<Item = Slot> {
        self.runway.iter().copied()
    }

    /// Segments in which nothing is live, in the runway and beyond it, but for those being filled.
    pub(crate) fn unused(&self) -> usize {
        self.runway.len() + self.free.len() + self.empty.len()
    }

    /// Segments that a checkpoint would add to the runway.
    pub(crate) fn reclaimable(&self) -> usize {
        self.free.len() + self.empty.len()
    }

    /// True if the next `count` segments of the runway are there, and nobody reads what they hold.
    pub(crate) fn can_open(&self, count: usize) -> bool {
        let next = self.runway.iter().take(count);
        self.runway.len() >= count && next.into_iter().all(|slot| self.pins[slot.0 as usize] == 0)
    }

    /// Opens the next segment of the runway.
    ///
    /// # Panics
    /// If there is none, or somebody reads it.
    pub(crate) fn open(&mut self, stream: Stream, seq: SegmentSeq, now: WriteClock) -> Slot {
        let slot = self.runway.pop_front().expect("asked whether there is one");
        assert_eq!(self.pins[slot.0 as usize], 0, "reused a segment being read");
        let segment = self.at(slot);
        debug_assert_eq!(segment.live, 0);
        *segment = Segment {
            state: SegmentState::Open,
            stream,
            live: 0,
            seq,
            opened: now,
            closed: now,
            wear: segment.wear.saturating_add(1),
        };
        slot
    }

    /// The segment takes no more.
    pub(crate) fn close(&mut self, slot: Slot, now: WriteClock) {
        let segment = self.at(slot);
        debug_assert_eq!(segment.state, SegmentState::Open);
        segment.state = SegmentState::Closed;
        segment.closed = now;
        self.closed += 1;
        if self.get(slot).live == 0 {
            self.empty.insert(slot);
        }
    }

    /// So many sectors at a place came to be pointed at.
    pub(crate) fn count(&mut self, place: Place, sectors: u64) {
        let slot = self.layout.slot_of(place);
        let segment = self.at(slot);
        segment.live += sectors as u32;
        let closed = segment.state == SegmentState::Closed;
        self.live += sectors;
        if closed {
            self.empty.remove(&slot);
        }
    }

    /// So many sectors at a place are no longer pointed at. A segment of which more is given up than was counted, as
    /// after a crash of a disk that does not do what it is told, is not trusted with its counts any more: it
    /// passes for full, and is never used again.
    pub(crate) fn discount(&mut self, place: Place, sectors: u64) {
        let slot = self.layout.slot_of(place);
        let segment = self.at(slot);
        let Some(left) = segment.live.checked_sub(sectors as u32) else {
            let doubtful = std::mem::replace(&mut segment.live, u32::MAX / 2);
            tracing::error!(?slot, "more is given up in a segment than was counted");
            self.live += u64::from(u32::MAX / 2 - doubtful);
            return;
        };
        segment.live = left;
        let empty = segment.live == 0 && segment.state == SegmentState::Closed;
        self.live -= sectors;
        if empty {
            self.empty.insert(slot);
        }
    }

    /// What may follow the runway once a checkpoint that is cut now counts: what is free at this moment, least
    /// worn first, at most `most` of them. They are not in the runway yet.
    pub(crate) fn extension(&mut self, most: usize) -> Vec<Slot> {
        for slot in std::mem::take(&mut self.empty) {
            let segment = self.at(slot);
            segment.state = SegmentState::Free;
            let wear = segment.wear;
            self.closed -= 1;
            self.free.insert((wear, slot));
        }
        let mut extension = Vec::new();
        while extension.len() < most
            && let Some((_, slot)) = self.free.pop_first()
        {
            self.at(slot).state = SegmentState::Runway;
            extension.push(slot);
        }
        extension
    }

    /// The checkpoint that names these behind the runway counts.
    pub(crate) fn extend(&mut self, extension: Vec<Slot>) {
        self.runway.extend(extension);
    }

    /// Keeps a segment from being opened while it is read.
    pub(crate) fn pin(&mut self, slot: Slot) {
        self.pins[slot.0 as usize] += 1;
    }

    /// Says whether that was the last reader.
    pub(crate) fn unpin(&mut self, slot: Slot) -> bool {
        let pins = &mut self.pins[slot.0 as usize];
        *pins -= 1;
        *pins == 0
    }
}
