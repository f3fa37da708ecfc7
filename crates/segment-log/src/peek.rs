//! Reading a segment on a device: its summary, and the headers of its records.

use forebay_device::{BufMut, Device, DeviceError};
use forebay_units::{RecordSeq, SECTOR_BYTES, SegmentSeq};

use crate::format::entry::{LogLayout, RecordEntry};
use crate::format::envelope::{HEADER_BYTES, VolumeId};
use crate::format::record::RecordHeader;
use crate::format::summary::SegmentSummary;
use crate::shape::SegmentShape;

/// Reads the summary of the segment that begins at byte `at` of the device. Returns `None` if the segment has no
/// undamaged summary for this volume and segment.
///
/// # Errors
/// The device's error.
pub async fn read_summary<L: LogLayout>(
    device: &dyn Device,
    at: u64,
    shape: SegmentShape,
    volume: VolumeId,
    segment: SegmentSeq,
) -> Result<Option<SegmentSummary<L>>, DeviceError> {
    let end = at + u64::from(shape.segment_bytes);
    let last = device
        .read(end - HEADER_BYTES as u64, BufMut::to_fill(HEADER_BYTES))
        .await?;
    let Ok(total) = SegmentSummary::<L>::total_len(&last, shape.segment_bytes) else {
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

/// Decodes the summary of a segment. Returns `None` if it is damaged, or belongs to another segment or volume.
pub fn summary_in<L: LogLayout>(
    bytes: &[u8],
    shape: SegmentShape,
    volume: VolumeId,
    segment: SegmentSeq,
) -> Option<SegmentSummary<L>> {
    let summary = SegmentSummary::<L>::decode(bytes).ok()?;
    let is_it = summary.volume == volume && summary.segment == segment;
    (is_it && is_possible(&summary, shape)).then_some(summary)
}

/// Returns true if the records lie within the segment, in order from its start. Gaps of whole blocks between records
/// are valid.
fn is_possible<L: LogLayout>(summary: &SegmentSummary<L>, shape: SegmentShape) -> bool {
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

/// The record for which a walk along a segment searches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkTarget {
    /// The record with this number.
    Is(RecordSeq),
    /// Any record with at least this number.
    From(RecordSeq),
}

impl WalkTarget {
    fn is(self, seq: RecordSeq) -> bool {
        match self {
            WalkTarget::Is(wanted) => seq == wanted,
            WalkTarget::From(least) => seq >= least,
        }
    }

    fn after(self, seq: RecordSeq) -> WalkTarget {
        match self {
            WalkTarget::Is(_) => WalkTarget::Is(seq.next()),
            WalkTarget::From(_) => WalkTarget::From(seq.next()),
        }
    }
}

/// Returns the records of a segment by their headers, in order from `first`, up to the first record that is missing.
/// The first record is at the segment's start. Each further record is at the end of the previous record or, behind a
/// gap, at the first `block` boundary with a header of the next record. Other data in a gap is left over from another
/// segment or another epoch.
pub fn walk<L: LogLayout>(
    bytes: &[u8],
    block: u32,
    volume: VolumeId,
    segment: SegmentSeq,
    first: WalkTarget,
) -> impl Iterator<Item = RecordHeader<L>> {
    walk_from(0, bytes, block, volume, segment, first)
}

/// Like [`walk`], with the first record at byte `at` of the segment.
pub fn walk_from<L: LogLayout>(
    mut at: usize,
    bytes: &[u8],
    block: u32,
    volume: VolumeId,
    segment: SegmentSeq,
    first: WalkTarget,
) -> impl Iterator<Item = RecordHeader<L>> {
    let (mut expected, mut epoch) = (first, None);
    std::iter::from_fn(move || {
        let last_place = match epoch {
            None => at,
            Some(_) => bytes.len(),
        };
        let belongs = |record: &RecordHeader<L>| {
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

/// Returns the record header at byte `at` of a segment, if it is valid and belongs there.
pub fn header_at<L: LogLayout>(
    bytes: &[u8],
    at: usize,
    volume: VolumeId,
    segment: SegmentSeq,
) -> Option<RecordHeader<L>> {
    header_in(bytes.get(at..)?, at as u64, volume, segment)
}

/// Returns the record header at the beginning of `bytes`, if it is valid and belongs at byte `at` of the segment.
pub fn header_in<L: LogLayout>(
    bytes: &[u8],
    at: u64,
    volume: VolumeId,
    segment: SegmentSeq,
) -> Option<RecordHeader<L>> {
    let record = RecordHeader::<L>::decode(bytes.get(..HEADER_BYTES)?).ok()?;
    let here =
        record.volume == volume && record.segment == segment && u64::from(record.offset) == at;
    here.then_some(record)
}

/// Returns true if the data of every entry of the record at `offset` is undamaged.
pub fn payload_is_sound<E: RecordEntry>(bytes: &[u8], offset: u32, entries: &[E]) -> bool {
    let mut at = offset as usize + HEADER_BYTES;
    entries.iter().all(|entry| {
        let len = (entry.payload_sectors() * SECTOR_BYTES) as usize;
        let data = bytes.get(at..at + len);
        at += len;
        data.is_some_and(|data| entry.is_sound(data))
    })
}
