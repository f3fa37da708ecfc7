//! I7 from the outside: after a required request of the log device failed, whatever is still written
//! to its superblock says that the log was given up.

use std::cell::Cell;

use forebay_device::DeviceOp;
use forebay_ring_log::{RingSuperblock, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT};

use forebay_sim::Violation;
use forebay_sim::disk::DiskRequest;

/// Follows the superblocks of one life.
#[derive(Default)]
pub(super) struct AbandonedLogChecker {
    /// The highest generation asked for so far.
    generation: Cell<u64>,
    failed: Cell<bool>,
}

impl AbandonedLogChecker {
    /// The log device is asked for something.
    pub(super) fn issued(&self, request: &DiskRequest) -> Result<(), Violation> {
        let at = request.range.start;
        let place = at == SUPERBLOCK_A_AT || at == SUPERBLOCK_B_AT;
        let bytes = request.bytes.as_ref().filter(|_| place);
        let Some(superblock) = bytes.and_then(|bytes| RingSuperblock::decode(bytes).ok()) else {
            return Ok(());
        };
        // The second copy of one that was begun before the failure may still go out.
        let newer = superblock.generation > self.generation.get();
        self.generation
            .set(self.generation.get().max(superblock.generation));
        if newer && self.failed.get() && !superblock.abandoned {
            let text = format!(
                "the log failed, and then its superblock of generation {} was written as if it had not",
                superblock.generation
            );
            return Err(Violation::new("given up (I7)", text));
        }
        Ok(())
    }

    /// A request of the log device ended.
    pub(super) fn ended(&self, request: &DiskRequest, failed: bool) {
        if failed && request.op != DeviceOp::Read {
            self.failed.set(true);
        }
    }
}
