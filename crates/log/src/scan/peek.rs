//! What a segment shows of itself: its summary, and the headers of its records.

use forebay_device::{BufMut, Device, DeviceError};
use forebay_units::{RecordSeq, SECTOR_BYTES, SegmentSeq};

use crate::format::{Entry, HEADER_BYTES, Record, Summary, Superblock, VolumeId};
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
    let read = read_summary(device, &ring, superblock.volume, segment).await;
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
        let header = device
            .read(ring.segment_at(segment), BufMut::zeroed(HEADER_BYTES))
            .await;
        peeked.unreadable |= header.is_err();
        peeked.first = header
            .ok()
            .and_then(|bytes| header_at(&bytes, 0, superblock.volume, segment))
            .filter(|record| counts(record.epoch));
        peeked.bytes_read += HEADER_BYTES as u64;
    }
    peeked
}

/// Reads a segment's summary, if it has a sound one of this volume and segment.
///
/// # Errors
/// The device's.
pub(crate) async fn read_summary(
    device: &dyn Device,
    ring: &RingGeometry,
    volume: VolumeId,
    segment: SegmentSeq,
) -> Result<Option<Summary>, DeviceError> {
    let end = ring.segment_at(segment) + u64::from(ring.segment_bytes);
    let last = device
        .read(end - HEADER_BYTES as u64, BufMut::zeroed(HEADER_BYTES))
        .await?;
    let Ok(total) = Summary::total_len(&last, ring.segment_bytes) else {
        return Ok(None);
    };
    let bytes = if total == HEADER_BYTES {
        last
    } else {
        device
            .read(end - total as u64, BufMut::zeroed(total))
            .await?
    };
    let summary = Summary::decode(&bytes).ok();
    Ok(summary.filter(|summary| {
        summary.volume == volume && summary.segment == segment && summary_is_possible(summary, ring)
    }))
}

/// True if the records lie one after the other from the segment's start, inside it; between two there may
/// be a gap of whole blocks.
fn summary_is_possible(summary: &Summary, ring: &RingGeometry) -> bool {
    let mut end = 0u64;
    for (n, record) in summary.records.iter().enumerate() {
        let at = u64::from(record.offset);
        let behind_a_gap = n > 0 && at > end && record.offset.is_multiple_of(ring.block);
        if at != end && !behind_a_gap {
            return false;
        }
        end = at + HEADER_BYTES as u64 + u64::from(record.payload_bytes);
    }
    end <= u64::from(ring.segment_bytes)
}

/// The records of a segment by their headers, in order from `first`, as far as they are found. The first is
/// at the segment's start, each further one where the one before ends or, behind a gap, in the first
/// `block` from there on that begins with its header. What else stands in a gap is left over from before:
/// of another segment, or of another epoch.
pub(crate) fn walk(
    bytes: &[u8],
    block: u32,
    volume: VolumeId,
    segment: SegmentSeq,
    first: RecordSeq,
) -> impl Iterator<Item = Record> {
    let (mut at, mut expected, mut epoch) = (0usize, first, None);
    std::iter::from_fn(move || {
        let last_place = match epoch {
            None => at,
            Some(_) => bytes.len(),
        };
        let belongs = |record: &Record| {
            record.seq == expected && epoch.is_none_or(|epoch| epoch == record.epoch)
        };
        let record = (at..=last_place)
            .step_by(block as usize)
            .find_map(|at| header_at(bytes, at, volume, segment).filter(belongs))?;
        at = record.offset as usize + HEADER_BYTES + record.payload_bytes as usize;
        expected = expected.next();
        epoch = Some(record.epoch);
        (at <= bytes.len()).then_some(record)
    })
}

/// The record header at byte `at` of a segment, if one that belongs there stands there.
pub(super) fn header_at(
    bytes: &[u8],
    at: usize,
    volume: VolumeId,
    segment: SegmentSeq,
) -> Option<Record> {
    let record = Record::decode(bytes.get(at..at.checked_add(HEADER_BYTES)?)?).ok()?;
    let here = record.volume == volume && record.segment == segment && record.offset as usize == at;
    here.then_some(record)
}

/// True if every piece of the record at `offset` matches its checksum.
pub(super) fn payload_is_sound(bytes: &[u8], offset: u32, entries: &[Entry]) -> bool {
    let mut at = offset as usize + HEADER_BYTES;
    entries.iter().all(|entry| {
        let len = (entry.payload_sectors() * SECTOR_BYTES) as usize;
        let data = bytes.get(at..at + len);
        at += len;
        match entry {
            Entry::Data { crc, .. } => data.is_some_and(|data| crc32c::crc32c(data) == *crc),
            Entry::Range { .. } => true,
        }
    })
}
