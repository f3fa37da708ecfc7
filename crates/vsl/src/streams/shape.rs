//! What of the streams follows from the placement, and its change.

use super::{Counts, Streams};
use crate::changed::ChangedBounds;
use crate::format::Stream;

/// What of the streams and of the room that is kept follows from the placement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamShape {
    pub(crate) counts: Counts,
    pub(crate) changed: ChangedBounds,
    /// One in so many segments is kept free of mapped data.
    pub(crate) spare_part: u64,
}

impl Streams {
    /// Ends what is open, and the segments of streams that are not in use with `counts`.
    pub(crate) fn leave_for(&mut self, counts: Counts) {
        self.end_all();
        for n in 0..Stream::COUNT as u8 {
            let stream = Stream(n);
            if self.open[usize::from(n)].is_some() && !counts.has(stream) {
                // All that is left is written, so that a segment can be a zone that is written in order.
                self.seal(stream, self.layout.segment_bytes);
            }
        }
    }

    /// Has streams and bounds of another placement, and says which it had.
    pub(crate) fn set_shape(&mut self, shape: StreamShape) -> StreamShape {
        self.flight.set_more(shape.counts.all().into());
        StreamShape {
            counts: std::mem::replace(&mut self.counts, shape.counts),
            changed: std::mem::replace(&mut self.changed, shape.changed),
            spare_part: self.table.set_spare_part(shape.spare_part),
        }
    }
}
