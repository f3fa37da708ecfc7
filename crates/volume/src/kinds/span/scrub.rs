//! The superblocks of a span, for a scrub. They are written once, when the span is created.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Device, ScrubArea, ScrubFuture, ScrubTarget};
use forebay_rt::Lock;
use forebay_segment_log::{COPIES_BYTES, COPIES_END, VolumeId, scrub_copies};

use super::format::SpanSuperblock;

/// Both copies of the superblock of one device.
pub(super) struct SpanScrub {
    device: Rc<dyn Device>,
    volume: VolumeId,
    /// Never held by others, since no task writes the superblock.
    turn: Rc<Lock>,
}

impl SpanScrub {
    pub(super) fn new(device: Rc<dyn Device>, volume: VolumeId) -> SpanScrub {
        SpanScrub {
            device,
            volume,
            turn: Rc::default(),
        }
    }
}

impl ScrubTarget for SpanScrub {
    fn area(&self) -> ScrubArea {
        ScrubArea::Superblock
    }

    fn end(&self) -> u64 {
        COPIES_END
    }

    fn bytes(&self) -> u64 {
        COPIES_BYTES
    }

    fn step(&self, range: Range<u64>) -> ScrubFuture<'_> {
        let (device, turn) = (&*self.device, &self.turn);
        Box::pin(scrub_copies::<SpanSuperblock>(
            device,
            self.volume,
            turn,
            self.area(),
            range,
        ))
    }
}
