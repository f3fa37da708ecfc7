//! The properties of the streams that depend on the placement, and their change.

use super::{SegmentStreams, StreamCounts};
use crate::changed::ChangedBounds;
use crate::format::StreamNumber;

/// The properties of the streams and of the reserves that depend on the placement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamShape {
    pub(crate) counts: StreamCounts,
    pub(crate) changed: ChangedBounds,
    /// Number of segments for each segment that is kept free of mapped data.
    pub(crate) spare_part: u64,
}

impl SegmentStreams {
    /// Ends all open records, and the segments of streams that are not in use with `counts`.
    pub(crate) fn leave_for(&mut self, counts: StreamCounts) {
        self.end_all();
        for n in 0..StreamNumber::COUNT as u8 {
            let stream = StreamNumber(n);
            if self.open[usize::from(n)].is_some() && !counts.has(stream) {
                // The rest of the segment is written, so that a segment can be a zone that is written in order.
                self.seal(stream, self.layout.segment_bytes);
            }
        }
    }

    /// Sets the streams and bounds of another placement. Returns the old ones.
    pub(crate) fn set_shape(&mut self, shape: StreamShape) -> StreamShape {
        self.flight.set_more(shape.counts.all().into());
        StreamShape {
            counts: std::mem::replace(&mut self.counts, shape.counts),
            changed: std::mem::replace(&mut self.changed, shape.changed),
            spare_part: self.table.set_spare_part(shape.spare_part),
        }
    }
}
