//! The segments in memory: being filled, or not yet durable.

use forebay_extent_map::LogPlace;
use forebay_units::{SECTOR_BYTES, SegmentSeq};

use super::SegmentStreams;
use crate::format::StreamNumber;
use crate::geometry::SegmentSlot;

impl SegmentStreams {
    /// Returns the segments that are being filled, with their streams.
    pub(crate) fn open_segments(
        &self,
    ) -> impl Iterator<Item = (StreamNumber, SegmentSlot, SegmentSeq)> {
        let open = self.open.iter().enumerate();
        open.filter_map(|(n, open)| {
            let open = open.as_ref()?;
            Some((StreamNumber(n as u8), open.slot, open.builder.seq()))
        })
    }

    /// Returns the bytes at a place, if its segment is still in memory. The range must lie within one record.
    pub(crate) fn in_ram(&self, place: LogPlace, sectors: u64) -> Option<&[u8]> {
        let ram = self.flight.segment(self.layout.segment_of(place))?;
        let offset = self.layout.offset_of(place);
        ram.bytes(offset..offset + (sectors * SECTOR_BYTES) as u32)
    }

    /// Returns true if the segment of a place is still in memory.
    pub(crate) fn is_in_ram(&self, place: LogPlace) -> bool {
        self.flight.segment(self.layout.segment_of(place)).is_some()
    }
}
