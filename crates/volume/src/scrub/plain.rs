//! Plain reads of a device that has no checksums: a scrub finds blocks there that the device does not return.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    BufMut, Device, DeviceError, SCRUB_BYTES, ScrubArea, ScrubFault, ScrubFuture, ScrubStep,
    ScrubTarget,
};
use forebay_units::{LINE_BYTES, SECTOR_BYTES};

/// A device without checksums, for a scrub. Positions are its sectors.
pub(crate) struct PlainScrub {
    device: Rc<dyn Device>,
}

impl PlainScrub {
    /// Returns the scrub of a whole device.
    pub(crate) fn new(device: Rc<dyn Device>) -> PlainScrub {
        PlainScrub { device }
    }

    async fn read(&self, sectors: Range<u64>) -> Result<(), DeviceError> {
        let bytes = (sectors.end - sectors.start) * SECTOR_BYTES;
        let buf = BufMut::to_fill(bytes as usize);
        let read = self.device.read(sectors.start * SECTOR_BYTES, buf).await;
        read.map(drop)
    }

    async fn scrub(&self, range: Range<u64>) -> ScrubStep {
        let block = u64::from(self.device.geometry().block_size).max(LINE_BYTES) / SECTOR_BYTES;
        let end = (range.start + SCRUB_BYTES / SECTOR_BYTES).min(range.end);
        let mut step = ScrubStep {
            next: end,
            bytes: (end - range.start) * SECTOR_BYTES,
            ..ScrubStep::default()
        };
        if self.read(range.start..end).await.is_ok() {
            return step;
        }
        let mut at = range.start;
        while at < end {
            let sectors = at..(at + block).min(end);
            at = sectors.end;
            if let Err(error) = self.read(sectors.clone()).await {
                step.add(ScrubFault::of_device(self.area(), sectors, &error));
            }
        }
        step
    }
}

impl ScrubTarget for PlainScrub {
    fn area(&self) -> ScrubArea {
        ScrubArea::Device
    }

    fn end(&self) -> u64 {
        self.device.geometry().len / SECTOR_BYTES
    }

    fn bytes(&self) -> u64 {
        self.end() * SECTOR_BYTES
    }

    fn step(&self, range: Range<u64>) -> ScrubFuture<'_> {
        Box::pin(self.scrub(range))
    }
}
