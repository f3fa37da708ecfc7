//! Claims to free segments, and permission to open them.

use crate::batch::Batch;

/// Who opens a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// A record that continues the allocation queue.
    Queue,
    /// A checkpoint.
    Checkpoint,
    /// The cleaner, where neither a checkpoint nor anything under way makes room, for segments of which all live data fits one.
    Rescue,
    /// The cleaner, and records that tell what was written in place.
    Cleaner,
    /// A batch of trims alone.
    Trims,
    /// A batch that writes.
    Writers,
}

/// How many segments each claim leaves on the allocation queue.
pub(crate) trait Floors {
    /// Segments that a claim leaves.
    fn floor(&self, claim: Claim) -> usize;
}

/// Permission to open segments. Made by `streams.rs::grant` alone.
#[must_use]
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) segments: usize,
}

/// What batches take of segments.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Wanted {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    /// Open records that end before they are full, where a placement has several streams.
    pub(crate) rounds: u64,
}

impl Wanted {
    pub(crate) fn of(batch: &Batch) -> Wanted {
        Wanted {
            bytes: batch.bytes(),
            entries: batch.entries(),
            rounds: batch.rounds(),
        }
    }

    pub(crate) fn plus(self, other: Wanted) -> Wanted {
        Wanted {
            bytes: self.bytes + other.bytes,
            entries: self.entries + other.entries,
            rounds: self.rounds + other.rounds,
        }
    }

    pub(crate) fn less(self, other: Wanted) -> Wanted {
        Wanted {
            bytes: self.bytes - other.bytes,
            entries: self.entries - other.entries,
            rounds: self.rounds - other.rounds,
        }
    }
}
