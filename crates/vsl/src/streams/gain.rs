//! The check that cleaning can gain a whole segment.

use forebay_placement::WriteClock;
use forebay_placement::victim::VictimSelection;
use forebay_segment_log::HEADER_BYTES;
use forebay_units::{LINE_SECTORS, SECTOR_BYTES};

use super::SegmentStreams;
use crate::format::StreamNumber;

impl SegmentStreams {
    /// Returns true if cleaning can gain a whole segment: from the segments that are worth cleaning, and the rest of
    /// the segment that data is moved to.
    ///
    /// With a smaller gain, moving data only changes the place of the garbage: a volume without clients would be
    /// cleaned without end. A full volume without free segments has
    /// [`SegmentTable::spare`](crate::table::SegmentTable::spare) segments of garbage. Less than half of this garbage
    /// is in segments that gain less than [`SegmentTable::worth`](crate::table::SegmentTable::worth). At least three
    /// segments are spare.
    pub(crate) fn can_gain_segment(&self) -> bool {
        let segment = self.layout.dense_sectors();
        // The last fragment may not fit into the rest of a segment.
        let wanted = (segment + LINE_SECTORS).saturating_sub(self.rest_of_moved());
        if self.table.gain() < wanted {
            return false;
        }
        let (now, worth) = (WriteClock(0), self.table.worth());
        let best = self
            .table
            .choose(VictimSelection::Greedy, now, wanted, usize::MAX, worth);
        let gain: u64 = best.iter().map(|victim| u64::from(victim.gain)).sum();
        gain >= wanted
    }

    /// Returns the sectors left for data in the open segment that receives all moved data while free segments are
    /// short.
    fn rest_of_moved(&self) -> u64 {
        let open = self.open[usize::from(StreamNumber::moved(0).0)].as_ref();
        open.map_or(0, |open| {
            // The next record begins with a header.
            let header = if open.builder.has_open_record() {
                0
            } else {
                HEADER_BYTES as u32
            };
            let used = open.builder.at() + open.builder.open_record_bytes() + header;
            u64::from(self.layout.segment_bytes.saturating_sub(used)) / SECTOR_BYTES
        })
    }
}
