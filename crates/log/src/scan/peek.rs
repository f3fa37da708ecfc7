//! A look at a segment's ends.

use forebay_device::{BufMut, Device};
use forebay_segments::{header_at, read_summary};
use forebay_units::SegmentSeq;

use crate::format::{HEADER_BYTES, Record, Ring, Summary, Superblock};
use crate::ring::RingGeometry;

/// What a look at a segment's ends showed.
pub(super) struct Peek {
    pub(super) segment: SegmentSeq,
    pub(super) summary: Option<Summary>,
    /// Without a summary: its first record's header.
    pub(super) first: Option<Record>,
    /// No summary was found, and its place or that of the first header could not be read: what the
    /// segment has to say is not known.
    pub(super) unreadable: bool,
    pub(super) bytes_read: u64,
}

impl Peek {
    pub(super) fn has_something(&self) -> bool {
        self.summary.is_some() || self.first.is_some()
    }

    /// Nothing stands at its ends that a scan could take up, now or at another try.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_something() && !self.unreadable
    }
}

/// Looks at a segment's ends.
pub(super) async fn peek(
    device: &dyn Device,
    superblock: &Superblock,
    ring: RingGeometry,
    segment: SegmentSeq,
) -> Peek {
    // Whether it matters that a place cannot be read shows later.
    let at = ring.segment_at(segment);
    let read = read_summary::<Ring>(device, at, ring.shape(), superblock.volume, segment).await;
    let unreadable = read.is_err();
    let summary = read.ok().flatten();
    let counts = |epoch| segment < superblock.epoch_segment || epoch >= superblock.epoch;
    let summary = summary.filter(|summary| counts(summary.epoch));
    let mut peeked = Peek {
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
