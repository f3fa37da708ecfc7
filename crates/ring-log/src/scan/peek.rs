//! Inspection of the two ends of a segment.

use forebay_device::{BufMut, Device};
use forebay_segment_log::{header_at, read_summary};
use forebay_units::SegmentSeq;

use crate::format::{HEADER_BYTES, RingLayout, RingRecord, RingSummary, RingSuperblock};
use crate::ring::RingGeometry;

/// Contents of a segment's ends.
pub(super) struct SegmentPeek {
    pub(super) segment: SegmentSeq,
    pub(super) summary: Option<RingSummary>,
    /// Header of the first record. Set only without a summary.
    pub(super) first: Option<RingRecord>,
    /// True if no summary was found, and the place of the summary or of the first header could not be read. The
    /// segment's content is unknown in this case.
    pub(super) unreadable: bool,
    pub(super) bytes_read: u64,
}

impl SegmentPeek {
    pub(super) fn has_something(&self) -> bool {
        self.summary.is_some() || self.first.is_some()
    }

    /// Returns true if the ends contain nothing that a scan could accept, neither now nor at another attempt.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_something() && !self.unreadable
    }
}

/// Reads the two ends of a segment.
pub(super) async fn peek(
    device: &dyn Device,
    superblock: &RingSuperblock,
    ring: RingGeometry,
    segment: SegmentSeq,
) -> SegmentPeek {
    // An unreadable place is no error here; the scan decides later.
    let at = ring.segment_at(segment);
    let read =
        read_summary::<RingLayout>(device, at, ring.shape(), superblock.volume, segment).await;
    let unreadable = read.is_err();
    let summary = read.ok().flatten();
    let counts = |epoch| segment < superblock.epoch_segment || epoch >= superblock.epoch;
    let summary = summary.filter(|summary| counts(summary.epoch));
    let mut peeked = SegmentPeek {
        segment,
        summary,
        first: None,
        unreadable,
        bytes_read: HEADER_BYTES as u64,
    };
    if peeked.summary.is_none() {
        let header = device.read(at, BufMut::to_fill(HEADER_BYTES)).await;
        peeked.unreadable |= header.is_err();
        peeked.first = header
            .ok()
            .and_then(|bytes| header_at(&bytes, 0, superblock.volume, segment))
            .filter(|record| counts(record.epoch));
        peeked.bytes_read += HEADER_BYTES as u64;
    }
    peeked
}
