//! Placement handles: names the stream of a segment to the device, with the first write of the segment.
//!
//! The data of one stream dies at similar times: this is the purpose of streams. A device with placement handles (NVMe
//! FDP) can keep the segments of a stream together on its flash, so that discarded segments leave its erase blocks
//! empty.

use std::rc::Rc;

use forebay_device::{Device, Durability, PlacementHandle};
use forebay_rt::Instant;
use forebay_segments::Watcher;
use forebay_segments::commit::Write;

use crate::format::SEGMENTS_AT;
use crate::geometry::Slot;
use crate::streams::Streams;

/// Names the stream of each segment to the device.
pub(crate) struct Handles {
    device: Rc<dyn Device>,
}

impl Handles {
    pub(crate) fn new(device: Rc<dyn Device>) -> Handles {
        Handles { device }
    }
}

impl Watcher<Streams> for Handles {
    type Issued = ();

    /// Sets the handle when a write begins at the first byte of a segment: this is the segment's first write.
    fn issued(&self, streams: &Streams, _: Instant, write: &Write, _: bool) {
        let segment = u64::from(streams.layout.segment_bytes);
        let at = write.at - SEGMENTS_AT;
        if at.is_multiple_of(segment) {
            let slot = Slot((at / segment) as u32);
            let handle =
                PlacementHandle(streams.counts.index(streams.table.get(slot).stream).into());
            self.device.place(write.at..write.at + segment, handle);
        }
    }

    fn done(&self, _: &Streams, _: &dyn Device, _: Instant, (): (), _: Durability) {}
}
