//! What is known of a segment, and the states that it goes through.

use std::collections::BTreeSet;

use forebay_placement::WriteClock;
use forebay_units::SegmentSeq;

use crate::format::Stream;

/// What a segment is doing. [`SegmentState::may_become`] has all transitions; `docs/design/vsl.md` has them as a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SegmentState {
    /// Nothing in it is needed. It can be put on the allocation queue.
    Free,
    /// As `Free`, but the device is to be told first that nothing in it is needed.
    Stale,
    /// The device is being told.
    Discarding,
    /// It is on the allocation queue.
    Queued,
    /// It is being filled.
    Open,
    /// It is full, or was being filled when the volume stopped, and something in it is live. It can be cleaned.
    Closed,
    /// The cleaner moves what is live in it.
    Cleaning,
    /// It was cleaned since the newest checkpoint. What is still live leaves with the next.
    Cleaned,
    /// Blocks in it are being overwritten in place.
    InPlace,
    /// Something live in it could not be read. It is not cleaned for a while.
    Unreadable,
    /// Nothing in it is live, but recovery may need its records until the next checkpoint is valid.
    Pending,
    /// Nothing in it is live, and recovery does not need it.
    Empty,
    /// As `Empty`; it is free when the records that superseded its data are durable.
    Settling,
    /// As `Free`, but a read of what it held is still under way.
    Pinned,
}

use SegmentState::{
    Cleaned, Cleaning, Closed, Discarding, Empty, Free, InPlace, Open, Pending, Pinned, Queued,
    Settling, Stale, Unreadable,
};

/// What the table on the device says of a segment's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentPhase {
    /// Free, and not on the allocation queue.
    Free,
    /// On the allocation queue.
    Queued,
    /// Being filled.
    Open,
    /// Filled.
    Closed,
}

impl SegmentState {
    /// How many states there are.
    pub(crate) const COUNT: usize = 14;

    /// True if a segment goes from this state to `next` by one step.
    pub(crate) fn may_become(self, next: SegmentState) -> bool {
        // Recovery opens a segment again that was freed, queued and opened behind the checkpoint.
        if next == Open {
            return true;
        }
        let nexts: &[SegmentState] = match self {
            Free => &[Queued, Discarding],
            Stale => &[Discarding],
            Discarding => &[Free],
            Queued => &[],
            Open => &[Closed, Pending],
            Closed => &[Cleaning, InPlace, Pending, Empty],
            Cleaning => &[Cleaned, Unreadable, Closed, Pending, Empty],
            Cleaned | InPlace | Unreadable => &[Closed, Pending, Empty],
            // What is written in place makes an empty segment live again while recovery applies records.
            Pending => &[Empty, Closed],
            Empty => &[Settling, Closed],
            Settling => &[Free, Stale, Pinned],
            Pinned => &[Free, Stale],
        };
        nexts.contains(&next)
    }

    /// What the table on the device says of it.
    pub(crate) fn phase(self) -> SegmentPhase {
        match self {
            Free | Stale | Discarding | Pinned => SegmentPhase::Free,
            Queued => SegmentPhase::Queued,
            Open => SegmentPhase::Open,
            Closed | Cleaning | Cleaned | InPlace | Unreadable | Pending | Empty | Settling => {
                SegmentPhase::Closed
            }
        }
    }

    /// True if its number still has places: what it holds may be pointed at.
    pub(crate) fn has_number(self) -> bool {
        matches!(self.phase(), SegmentPhase::Open | SegmentPhase::Closed)
    }

    /// True if nothing in it is live, whether or not it can be used at once.
    pub(crate) fn is_unused(self) -> bool {
        matches!(self, Pending | Empty | Settling)
            || matches!(self.phase(), SegmentPhase::Free | SegmentPhase::Queued)
    }
}

/// What is known of a segment, as the table on the device has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// What it is doing.
    pub(crate) phase: SegmentPhase,
    /// The stream it belongs to, or belonged to last.
    pub(crate) stream: Stream,
    /// Sectors that are live: the map or the newest checkpoint points at them.
    pub(crate) live: u32,
    /// What the extents of the map count for in it (`weight.rs`), in units.
    pub(crate) units: u32,
    /// Its number in the order in which segments were opened; never given to another segment.
    pub(crate) seq: SegmentSeq,
    /// When users wrote its data: on average for moved data, otherwise when the segment was opened.
    pub(crate) born: WriteClock,
    /// When it was closed.
    pub(crate) closed: WriteClock,
    /// How often its slot was opened, up to 2^24 − 1.
    pub(crate) wear: u32,
}

/// Wear is counted up to this: three bytes on the device.
const WEAR_MAX: u32 = (1 << 24) - 1;

impl Segment {
    /// A segment that was never used.
    pub(crate) const NEW: Segment = Segment {
        phase: SegmentPhase::Free,
        stream: Stream(0),
        live: 0,
        units: 0,
        seq: SegmentSeq(0),
        born: WriteClock(0),
        closed: WriteClock(0),
        wear: 0,
    };

    /// The slot's next segment, as it begins to be filled.
    pub(crate) fn opened(&self, stream: Stream, seq: SegmentSeq, now: WriteClock) -> Segment {
        Segment {
            phase: SegmentPhase::Open,
            stream,
            live: 0,
            units: 0,
            seq,
            born: now,
            closed: now,
            wear: (self.wear + 1).min(WEAR_MAX),
        }
    }
}

/// What was on the device when the newest checkpoint was cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frontier {
    /// Segments from this number on were opened since.
    pub(crate) next: SegmentSeq,
    /// Numbers of the segments that were open then.
    pub(crate) open: BTreeSet<SegmentSeq>,
}

impl Frontier {
    /// Everything is to be kept: while a volume is being recovered.
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
