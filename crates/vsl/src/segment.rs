//! What is known of a segment.

use std::collections::BTreeSet;

use forebay_placement::WriteClock;
use forebay_units::SegmentSeq;

use crate::format::Stream;

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
    /// When its data was written by users: on average where it was moved, or else when the segment was opened.
    pub(crate) born: WriteClock,
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
        born: WriteClock(0),
        closed: WriteClock(0),
        wear: 0,
    };

    /// The same when it begins to be filled anew.
    pub(crate) fn opened(&self, stream: Stream, seq: SegmentSeq, now: WriteClock) -> Segment {
        Segment {
            state: SegmentState::Open,
            stream,
            live: 0,
            seq,
            born: now,
            closed: now,
            wear: self.wear.saturating_add(1),
        }
    }
}

/// What was on the medium when the newest checkpoint was cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frontier {
    /// Segments from this one on were opened since.
    pub(crate) next: SegmentSeq,
    /// Those that were open then.
    pub(crate) open: BTreeSet<SegmentSeq>,
}

impl Frontier {
    /// Everything is to be kept: while a volume is being taken up.
    pub(crate) fn before_all() -> Frontier {
        Frontier {
            next: SegmentSeq(0),
            open: BTreeSet::new(),
        }
    }

    /// True if no record behind the cut lies in this segment.
    pub(crate) fn is_past(&self, segment: SegmentSeq) -> bool {
        segment < self.next && !self.open.contains(&segment)
    }
}
