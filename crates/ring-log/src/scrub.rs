//! A scrub of a log in use reads the superblocks, and the entries of records that are on the device.

use std::ops::Range;

use forebay_device::{ScrubArea, ScrubStep};
use forebay_segment_log::scrub_copies;
use forebay_units::SegmentSeq;

use crate::format::RingSuperblock;
use crate::ring::{AddressedEntry, place};
use crate::write::RingLog;

impl RingLog {
    /// Reads the copies of the superblock that begin in a range of sectors of the device.
    pub async fn scrub_superblocks(&self, range: Range<u64>) -> ScrubStep {
        let (device, turn) = (&**self.inner.commit.device(), &self.inner.superblock_turn);
        let area = ScrubArea::LogSuperblock;
        scrub_copies::<RingSuperblock>(device, self.volume(), turn, area, range).await
    }

    /// Returns the entries of the records of a segment that is being filled, as far as the records are durable on the
    /// device. Empty for other segments.
    pub fn durable_entries(&self, segment: SegmentSeq) -> Vec<AddressedEntry> {
        let state = self.state();
        let mut placed = Vec::new();
        for record in state.open_records(segment) {
            if record.seq <= state.stable() {
                let (seq, offset) = (record.seq, record.offset);
                place(
                    &state.ring,
                    segment,
                    seq,
                    offset,
                    &record.entries,
                    &mut placed,
                );
            }
        }
        placed
    }
}
