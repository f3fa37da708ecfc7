//! What a segment on a device shows of itself: its summary, and the headers of its records.

use forebay_device::{BufMut, Device, DeviceError};
use forebay_units::{RecordSeq, SECTOR_BYTES, SegmentSeq};

use crate::format::entry::{Entry, Layout};
use crate::format::envelope::{HEADER_BYTES, VolumeId};
use crate::format::record::Record;
use crate::format::summary::Summary;
use crate::shape::Shape;

/// Reads the summary of the segment that begins at byte `at` of the device, if it has a sound one of this
/// volume and segment.
///
/// # Errors
/// The device's.
pub async fn read_summary<L: Layout>(
    device: &dyn Device,
    at: u64,
    shape: Shape,
    volume: VolumeId,
    segment: SegmentSeq,
) -> Result<Option<Summary<L>>, DeviceError> {
    let end = at + u64::from(shape.segment_bytes);
    let last = device
        .read(end - HEADER_BYTES as u64, BufMut::to_fill(HEADER_BYTES))
        .await?;
    let Ok(total) = Summary::<L>::total_len(&last, shape.segment_bytes) else {
        return Ok(None);
    };
    let bytes = if total == HEADER_BYTES {
        last
    } else {
        device
            .read(end - total as u64, BufMut::to_fill(total))
            .await?
    };
    Ok(summary_in(&bytes, shape, volume, segment))
}

/// The summary in `bytes`, if they are a sound one of a segment of this number of the volume.
pub fn summary_in<L: Layout>(
    bytes: &[u8],
    shape: Shape,
    volume: VolumeId,
    segment: SegmentSeq,
) -> Option<Summary<L>> {
    let summary = Summary::<L>::decode(bytes).ok()?;
    let is_it = summary.volume == volume && summary.segment == segment;
    (is_it && is_possible(&summary, shape)).then_some(summary)
}

/// True if the records lie one after the other from the segment's start, inside it; between two there may
/// be a gap of whole blocks.
fn is_possible<L: Layout>(summary: &Summary<L>, shape: Shape) -> bool {
    let mut end = 0u64;
    for (n, record) in summary.records.iter().enumerate() {
        let at = u64::from(record.offset);
        let behind_a_gap = n > 0 && at > end && record.offset.is_multiple_of(shape.block);
        if at != end && !behind_a_gap {
            return false;
        }
        end = at + HEADER_BYTES as u64 + u64::from(record.payload_bytes);
    }
    end <= u64::from(shape.segment_bytes)
}

/// Which record a walk along a segment looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Just this one.
    Is(RecordSeq),
    /// Any from this one on.
    From(RecordSeq),
}

impl Next {
    fn is(self, seq: RecordSeq) -> bool {
        match self {
            Next::Is(wanted) => seq == wanted,
            Next::From(least) => seq >= least,
        }
    }

    fn after(self, seq: RecordSeq) -> Next {
        match self {
            Next::Is(_) => Next::Is(seq.next()),
            Next::From(_) => Next::From(seq.next()),
        }
    }
}

/// The records of a segment by their headers, in order from `first`, as far as they are found. The first is
/// at the segment's start, each further one where the one before ends or, behind a gap, in the first
/// `block` from there on that begins with its header. What else stands in a gap is left over from before:
/// of another segment, or of another epoch.
pub fn walk<L: Layout>(
    bytes: &[u8],
    block: u32,
    volume: VolumeId,
    segment: SegmentSeq,
    first: Next,
) -> impl Iterator<Item = Record<L>> {
    walk_from(0, bytes, block, volume, segment, first)
}

/// The same, where the first record is `at` so many bytes from the segment's start.
pub fn walk_from<L: Layout>(
    mut at: usize,
    bytes: &[u8],
    block: u32,
    volume: VolumeId,
    segment: SegmentSeq,
    first: Next,
) -> impl Iterator<Item = Record<L>> {
    let (mut expected, mut epoch) = (first, None);
    std::iter::from_fn(move || {
        let last_place = match epoch {
            None => at,
            Some(_) => bytes.len(),
        };
        let belongs = |record: &Record<L>| {
            expected.is(record.seq) && epoch.is_none_or(|epoch| epoch == record.epoch)
        };
        let record = (at..=last_place)
            .step_by(block as usize)
            .find_map(|at| header_at(bytes, at, volume, segment).filter(belongs))?;
        at = record.offset as usize + HEADER_BYTES + record.payload_bytes as usize;
        expected = expected.after(record.seq);
        epoch = Some(record.epoch);
        (at <= bytes.len()).then_some(record)
    })
}

/// The record header at byte `at` of a segment, if one that belongs there stands there.
pub fn header_at<L: Layout>(
    bytes: &[u8],
    at: usize,
    volume: VolumeId,
    segment: SegmentSeq,
) -> Option<Record<L>> {
    header_in(bytes.get(at..)?, at as u64, volume, segment)
}

/// The record header that `bytes` begin with, if one that belongs there: at byte `at` of a segment.
pub fn header_in<L: Layout>(
    bytes: &[u8],
    at: u64,
    volume: VolumeId,
    segment: SegmentSeq,
) -> Option<Record<L>> {
    let record = Record::<L>::decode(bytes.get(..HEADER_BYTES)?).ok()?;
    let here =
        record.volume == volume && record.segment == segment && u64::from(record.offset) == at;
    here.then_some(record)
}

/// True if every piece of the record at `offset` is what was written.
pub fn payload_is_sound<E: Entry>(bytes: &[u8], offset: u32, entries: &[E]) -> bool {
    let mut at = offset as usize + HEADER_BYTES;
    entries.iter().all(|entry| {
        let len = (entry.payload_sectors() * SECTOR_BYTES) as usize;
        let data = bytes.get(at..at + len);
        at += len;
        data.is_some_and(|data| entry.is_sound(data))
    })
}
