//! Claims to free segments, and permission to open them.

use crate::batch::Batch;

/// The purpose for which a segment is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentClaim {
    /// A record that continues the allocation queue.
    Queue,
    /// A checkpoint.
    Checkpoint,
    /// The cleaner, when neither a checkpoint nor work in progress frees segments. It then cleans segments whose live
    /// data fits into one segment.
    Rescue,
    /// The cleaner, and records about writes in place.
    Cleaner,
    /// A batch of trims alone.
    Trims,
    /// A batch that writes.
    Writers,
}

/// The numbers of queued segments that claims must leave.
pub(crate) trait ClaimFloors {
    /// Returns the segments that a claim must leave on the allocation queue.
    fn floor(&self, claim: SegmentClaim) -> usize;
}

/// Permission to open segments. Created by `streams.rs::grant` alone.
#[must_use]
#[derive(Debug)]
pub(crate) struct SegmentGrant {
    pub(crate) segments: usize,
}

/// Space that batches take in segments.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct SegmentDemand {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    /// Open records that end before they are full, for a placement with several streams.
    pub(crate) rounds: u64,
}

impl SegmentDemand {
    pub(crate) fn of(batch: &Batch) -> SegmentDemand {
        SegmentDemand {
            bytes: batch.bytes(),
            entries: batch.entries(),
            rounds: batch.rounds(),
        }
    }

    pub(crate) fn plus(self, other: SegmentDemand) -> SegmentDemand {
        SegmentDemand {
            bytes: self.bytes + other.bytes,
            entries: self.entries + other.entries,
            rounds: self.rounds + other.rounds,
        }
    }

    pub(crate) fn less(self, other: SegmentDemand) -> SegmentDemand {
        SegmentDemand {
            bytes: self.bytes - other.bytes,
            entries: self.entries - other.entries,
            rounds: self.rounds - other.rounds,
        }
    }
}
