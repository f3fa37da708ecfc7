//! Segments without a summary.

use forebay_segment_log::{HEADER_BYTES, LogLayout as _};

use super::{FillingSegment, SegmentStreams};
use crate::format::{SpaceRecordLayout, StreamNumber};
use crate::geometry::SegmentLayout;

/// Maximum number of records in a segment of clients' data without a summary.
///
/// Large writes fill a segment with one record, or with two records if a flush came in between. Recovery reads the
/// header of each record in such segments instead of one summary. Many of these segments can lie behind a checkpoint. A
/// segment of small flushed writes has many records, and its summary takes a hundredth of it.
const USER_BARE_RECORDS: usize = 2;
/// Maximum number of records for each MiB of a segment of moved data or checkpoints without a summary. A record with a
/// full header of fragments of one sector has 88 KiB, so a segment has 12 such records for each MiB. A few more records
/// end early. With a summary, all entries of such a segment would be stored twice, which takes a twentieth of it.
const MOVED_BARE_RECORDS: usize = 16;

/// Returns the maximum number of records in a segment without a summary.
pub(super) fn bare_records(layout: &SegmentLayout, is_user: bool) -> usize {
    if is_user {
        USER_BARE_RECORDS
    } else {
        MOVED_BARE_RECORDS * (layout.segment_bytes as usize >> 20).max(1)
    }
}

/// Returns true if data at offset `at` of a segment would make its last block look like a summary. A client that knows
/// the volume's id could otherwise forge a summary with any contents. Such data is neither appended nor written in
/// place there.
pub(crate) fn forges_summary(layout: &SegmentLayout, at: u32, data: &[u8]) -> bool {
    let last = layout.segment_bytes - HEADER_BYTES as u32;
    let skip = last.checked_sub(at);
    let block = skip.and_then(|skip| data.get(skip as usize..));
    block.is_some_and(|block| block.starts_with(SpaceRecordLayout::SUMMARY))
}

impl FillingSegment {
    /// Returns true if an entry with its data may go to the open record.
    pub(super) fn fits_record(
        &self,
        layout: &SegmentLayout,
        entry_bytes: usize,
        data: &[u8],
    ) -> bool {
        let at = self.builder.at() + self.builder.open_record_bytes();
        self.builder.fits_record(entry_bytes, data.len() as u32)
            && !forges_summary(layout, at, data)
    }

    /// Returns true if an entry with its data may go to a new record. No record may be open.
    pub(super) fn fits_new_record(
        &self,
        layout: &SegmentLayout,
        entry_bytes: usize,
        data: &[u8],
    ) -> bool {
        let at = self.builder.at() + HEADER_BYTES as u32;
        self.builder.fits_new_record(entry_bytes, data.len() as u32)
            && !forges_summary(layout, at, data)
    }
}

impl SegmentStreams {
    /// Returns the maximum number of records in a segment of a stream without a summary.
    pub(super) fn bare_records(&self, stream: StreamNumber) -> usize {
        bare_records(&self.layout, stream.is_user())
    }
}
