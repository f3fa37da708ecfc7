//! I7 from the outside: after a required request of the log device failed, each new generation of its superblock must
//! mark the log as abandoned.

use std::cell::Cell;

use forebay_device::DeviceOp;
use forebay_ring_log::{RingSuperblock, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT};

use forebay_sim::Violation;
use forebay_sim::disk::DiskRequest;

/// Observes the superblocks of one incarnation.
#[derive(Default)]
pub(super) struct AbandonedLogChecker {
    /// The highest requested generation.
    generation: Cell<u64>,
    failed: Cell<bool>,
}

impl AbandonedLogChecker {
    /// Checks a request to the log device.
    pub(super) fn issued(&self, request: &DiskRequest) -> Result<(), Violation> {
        let at = request.range.start;
        let place = at == SUPERBLOCK_A_AT || at == SUPERBLOCK_B_AT;
        let bytes = request.bytes.as_ref().filter(|_| place);
        let Some(superblock) = bytes.and_then(|bytes| RingSuperblock::decode(bytes).ok()) else {
            return Ok(());
        };
        // The second copy of a superblock may still be written, if its first copy was begun before the failure.
        let newer = superblock.generation > self.generation.get();
        self.generation
            .set(self.generation.get().max(superblock.generation));
        if newer && self.failed.get() && !superblock.abandoned {
            let text = format!(
                "the log failed, and then its superblock of generation {} was written as if it had not",
                superblock.generation
            );
            return Err(Violation::new("abandoned (I7)", text));
        }
        Ok(())
    }

    /// Records the end of a request to the log device.
    pub(super) fn ended(&self, request: &DiskRequest, failed: bool) {
        if failed && request.op != DeviceOp::Read {
            self.failed.set(true);
        }
    }
}
