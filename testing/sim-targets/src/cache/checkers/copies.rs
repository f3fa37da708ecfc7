//! I3 from the outside: each change writes both copies of the superblock, and writes copy B only when copy A is
//! durable. Each copy alone is then sufficient.

use std::cell::Cell;

use forebay_ring_log::{RingSuperblock, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT};

use forebay_sim::Violation;
use forebay_sim::disk::DiskRequest;

/// Observes the two copies in one incarnation.
#[derive(Default)]
pub(super) struct SuperblockChecker {
    /// The last requested generation of copy A.
    asked: Cell<u64>,
    /// The written generations of copies A and B.
    done: [Cell<u64>; 2],
    /// True after a failure, when the order no longer matters.
    failed: Cell<bool>,
}

/// Returns the copy that a request writes, and its generation.
fn copy(request: &DiskRequest) -> Option<(usize, u64)> {
    let places = [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT];
    let which = places.iter().position(|at| *at == request.range.start)?;
    let superblock = RingSuperblock::decode(request.bytes.as_ref()?).ok()?;
    Some((which, superblock.generation))
}

impl SuperblockChecker {
    /// Checks a request to the log device.
    pub(super) fn issued(&self, request: &DiskRequest) -> Result<(), Violation> {
        let Some((which, generation)) = copy(request).filter(|_| !self.failed.get()) else {
            return Ok(());
        };
        let [a, b] = [self.done[0].get(), self.done[1].get()];
        if which == 0 && generation == self.asked.get() {
            // An abandoned log is marked by two writes: one without FUA, and one with FUA.
            return Ok(());
        }
        let wrong = match which {
            0 if b < self.asked.replace(generation) => "before the last was written to copy B",
            1 if a < generation => "to copy B before it was written to copy A",
            _ => return Ok(()),
        };
        let text = format!("generation {generation} of the superblock is written {wrong}");
        Err(Violation::new("copies (I3)", text))
    }

    /// Records the end of a request to the log device.
    pub(super) fn ended(&self, request: &DiskRequest, failed: bool) {
        match copy(request) {
            _ if failed => self.failed.set(true),
            Some((which, generation)) if request.fua => self.done[which].set(generation),
            _ => {}
        }
    }
}
