//! The open segments as the composer of group commit.

use forebay_segment_log::{InFlightSegments, RecordComposer};
use forebay_units::{RecordSeq, SegmentSeq};

use super::{FLUSH_AFTER_SEGMENTS, SegmentStreams};

impl RecordComposer for SegmentStreams {
    fn flight(&self) -> &InFlightSegments {
        &self.flight
    }

    fn flight_mut(&mut self) -> &mut InFlightSegments {
        &mut self.flight
    }

    fn segment_at(&self, segment: SegmentSeq) -> u64 {
        self.layout.slot_at(self.slots[&segment])
    }

    fn open(&self) -> Option<u64> {
        self.has_open_round().then_some(self.rounds)
    }

    fn open_bytes(&self) -> u32 {
        let user = self.open[..usize::from(self.counts.user)].iter().flatten();
        user.into_iter()
            .map(|open| open.builder.open_record_bytes())
            .sum()
    }

    fn close(&mut self) -> RecordSeq {
        self.end_round();
        self.last_record()
    }

    fn wants_flush(&self) -> bool {
        let segments = self.flight.segments().count();
        let open = self.open.iter().flatten().count();
        let others = (self.flight.room_max() - open) / 2;
        segments > open + FLUSH_AFTER_SEGMENTS.min(others)
    }

    fn set_stable(&mut self, covered: RecordSeq) {
        self.flight.set_stable(covered);
        self.forget_slots();
    }
}
