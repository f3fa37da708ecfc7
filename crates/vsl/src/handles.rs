//! Placement handles: names the stream of a segment to the device, with the first write of the segment.
//!
//! The data of one stream dies at similar times: this is the purpose of streams. A device with placement handles (NVMe
//! FDP) can keep the segments of a stream together on its flash, so that discarded segments leave its erase blocks
//! empty.

use std::rc::Rc;

use forebay_device::{Device, Durability, PlacementHandle};
use forebay_rt::Instant;
use forebay_segment_log::WriteWatcher;
use forebay_segment_log::commit::DeviceWrite;

use crate::format::SEGMENTS_AT;
use crate::geometry::SegmentSlot;
use crate::streams::SegmentStreams;

/// Names the stream of each segment to the device.
pub(crate) struct StreamHandles {
    device: Rc<dyn Device>,
}

impl StreamHandles {
    pub(crate) fn new(device: Rc<dyn Device>) -> StreamHandles {
        StreamHandles { device }
    }
}

impl WriteWatcher<SegmentStreams> for StreamHandles {
    type Issued = ();

    /// Sets the handle when a write begins at the first byte of a segment: this is the segment's first write.
    fn issued(&self, streams: &SegmentStreams, _: Instant, write: &DeviceWrite, _: bool) {
        let segment = u64::from(streams.layout.segment_bytes);
        let at = write.at - SEGMENTS_AT;
        if at.is_multiple_of(segment) {
            let slot = SegmentSlot((at / segment) as u32);
            let handle =
                PlacementHandle(streams.counts.index(streams.table.get(slot).stream).into());
            self.device.place(write.at..write.at + segment, handle);
        }
    }

    fn done(&self, _: &SegmentStreams, _: &dyn Device, _: Instant, (): (), _: Durability) {}
}
