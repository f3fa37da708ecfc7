//! The mechanical disk as the timing of an emulated device.

use forebay_rt::Instant;

use crate::TimingModel;
use crate::disk::{DiskCompletion, DiskOp, DiskOptions, DiskSpec, EnabledCaches, MechanicalDisk};

/// A drive: a mechanical disk, and its write cache setting.
pub struct Drive {
    disk: MechanicalDisk,
    write_cache: bool,
}

impl Drive {
    /// Creates an idle drive with these parameters.
    pub fn new(spec: DiskSpec, options: DiskOptions) -> Drive {
        let write_cache = match options.caches {
            EnabledCaches::Off => false,
            EnabledCaches::Own => spec.own_caches().immediate_report,
            EnabledCaches::Explicit(choice) => choice.immediate_report,
        };
        Drive {
            disk: MechanicalDisk::new(spec, options),
            write_cache,
        }
    }
}

impl TimingModel for Drive {
    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn has_write_cache(&self) -> bool {
        self.write_cache
    }

    fn submit(&mut self, now: Instant, id: u64, op: DiskOp, first: u64, blocks: u32) {
        self.disk.submit(now, id, op, first, blocks);
    }

    fn flush(&mut self, now: Instant, id: u64) {
        self.disk.flush(now, id);
    }

    fn next_event(&self) -> Option<Instant> {
        self.disk.next_event()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<DiskCompletion>) {
        self.disk.advance(now, done);
    }
}
