//! Segments: their table entries and their states.

use std::collections::BTreeSet;

use forebay_placement::WriteClock;
use forebay_units::SegmentSeq;

use crate::format::StreamNumber;

/// State of a segment. [`SegmentState::may_become`] has all transitions; `docs/design/vsl.md` has them as a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SegmentState {
    /// Its data is no longer needed. It can be put on the allocation queue.
    Free,
    /// As `Free`, but it must be discarded first.
    Stale,
    /// A discard is in progress.
    Discarding,
    /// On the allocation queue.
    Queued,
    /// Being filled.
    Open,
    /// Full, or was being filled when the volume stopped, and with live data. It can be cleaned.
    Closed,
    /// The cleaner moves its live data.
    Cleaning,
    /// Cleaned since the newest checkpoint. Its remaining live data leaves with the next checkpoint.
    Cleaned,
    /// Blocks in it are being overwritten in place.
    InPlace,
    /// Some of its live data could not be read. It is not cleaned for a while.
    Unreadable,
    /// Without live data, but recovery may need its records until the next checkpoint is valid.
    Pending,
    /// Without live data, and not needed by recovery.
    Empty,
    /// As `Empty`. It becomes free when the records that superseded its data are durable.
    Settling,
    /// As `Free`, but a read of its old data is still in progress.
    Pinned,
}

use SegmentState::{
    Cleaned, Cleaning, Closed, Discarding, Empty, Free, InPlace, Open, Pending, Pinned, Queued,
    Settling, Stale, Unreadable,
};

/// State of a segment in the table on the device.
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
    /// Number of states.
    pub(crate) const COUNT: usize = 14;

    /// Returns true if a segment can go from this state to `next` in one step.
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
            // An entry about a write in place can make an empty segment live again while recovery applies records.
            Pending => &[Empty, Closed],
            Empty => &[Settling, Closed],
            Settling => &[Free, Stale, Pinned],
            Pinned => &[Free, Stale],
        };
        nexts.contains(&next)
    }

    /// Returns the state for the table on the device.
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

    /// Returns true if the segment's number still has places, so that the map may point at them.
    pub(crate) fn has_number(self) -> bool {
        matches!(self.phase(), SegmentPhase::Open | SegmentPhase::Closed)
    }

    /// Returns true if the segment has no live data, even if it cannot be used at once.
    pub(crate) fn is_unused(self) -> bool {
        matches!(self, Pending | Empty | Settling)
            || matches!(self.phase(), SegmentPhase::Free | SegmentPhase::Queued)
    }
}

/// Entry of a segment in the table on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentEntry {
    /// State of the segment.
    pub(crate) phase: SegmentPhase,
    /// Current or last stream of the segment.
    pub(crate) stream: StreamNumber,
    /// Live sectors: the map or the newest checkpoint points at them.
    pub(crate) live: u32,
    /// Units of the map's extents in the segment (`weight.rs`).
    pub(crate) units: u32,
    /// Number of the segment in the order of openings. Never reused for another segment.
    pub(crate) seq: SegmentSeq,
    /// Time at which clients wrote the data: the average for moved data, otherwise the time of opening.
    pub(crate) born: WriteClock,
    /// Time at which the segment was closed.
    pub(crate) closed: WriteClock,
    /// Number of openings of the slot, at most 2^24 − 1.
    pub(crate) wear: u32,
}

/// Maximum wear count: three bytes on the device.
const WEAR_MAX: u32 = (1 << 24) - 1;

impl SegmentEntry {
    /// A segment that was never used.
    pub(crate) const NEW: SegmentEntry = SegmentEntry {
        phase: SegmentPhase::Free,
        stream: StreamNumber(0),
        live: 0,
        units: 0,
        seq: SegmentSeq(0),
        born: WriteClock(0),
        closed: WriteClock(0),
        wear: 0,
    };

    /// Returns the entry of the slot's next segment when it is opened.
    pub(crate) fn opened(
        &self,
        stream: StreamNumber,
        seq: SegmentSeq,
        now: WriteClock,
    ) -> SegmentEntry {
        SegmentEntry {
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

/// Boundary between the records before and behind the newest checkpoint's cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CheckpointFrontier {
    /// Segments from this number on were opened after the cut.
    pub(crate) next: SegmentSeq,
    /// Numbers of the segments that were open at the cut.
    pub(crate) open: BTreeSet<SegmentSeq>,
}

impl CheckpointFrontier {
    /// Returns the frontier during recovery, when all records must be kept.
    pub(crate) fn before_all() -> CheckpointFrontier {
        CheckpointFrontier {
            next: SegmentSeq(0),
            open: BTreeSet::new(),
        }
    }

    /// Returns true if no record behind the cut lies in this segment.
    pub(crate) fn is_past(&self, segment: SegmentSeq) -> bool {
        segment < self.next && !self.open.contains(&segment)
    }
}
