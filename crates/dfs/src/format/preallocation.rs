//! The record of a file's preallocated ranges.

use forebay_device::is_zero;
use std::ops::Range;

use forebay_segment_log::FormatError;
use forebay_segment_log::format::envelope::ByteReader;
use forebay_units::{RangeSet, SECTOR_BYTES};

use crate::geometry::PREALLOCATION_SECTORS;

const MAGIC: &[u8; 4] = b"FBPA";
const WHAT: &str = "record of preallocated ranges";
const HEADER: usize = 32;
const RANGE: usize = 16;

/// The most preallocated ranges of a file.
pub(crate) const PREALLOCATED_RANGES_MAX: usize =
    ((PREALLOCATION_SECTORS * SECTOR_BYTES) as usize - HEADER) / RANGE;

/// The preallocated ranges of a file, in sectors from the beginning of its data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Preallocation {
    /// The file's i-number.
    pub(crate) file: u64,
    /// The file's generation.
    pub(crate) generation: u64,
    /// At least one range, and at most [`PREALLOCATED_RANGES_MAX`].
    pub(crate) ranges: RangeSet,
}

fn crc_of(bytes: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), &[0; 4]);
    crc32c::crc32c_append(crc, &bytes[8..])
}

impl Preallocation {
    /// Encodes the record, padded to whole sectors.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let count = self.ranges.ranges();
        let mut out = Vec::from(*MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.file.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&(count as u64).to_le_bytes());
        for range in self.ranges.iter() {
            out.extend_from_slice(&range.start.to_le_bytes());
            out.extend_from_slice(&(range.end - range.start).to_le_bytes());
        }
        out.resize(sectors_of(count) * SECTOR_BYTES as usize, 0);
        let crc = crc_of(&out);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes the record in the sectors reserved for it. Returns `None` for unmapped sectors, which read as zeroes.
    ///
    /// # Errors
    ///
    /// If the record is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Preallocation>, FormatError> {
        if is_zero(bytes) {
            return Ok(None);
        }
        if bytes.len() < HEADER || bytes[..4] != MAGIC[..] {
            return Err(FormatError::Magic(WHAT));
        }
        let mut from = ByteReader(&bytes[8..]);
        let read = |from: &ByteReader<'_>| bytes.len() - from.0.len();
        let head = (|| {
            let (file, generation) = (from.uint(8)?, from.uint(8)?);
            let count = usize::try_from(from.uint(8)?).ok()?;
            let is_possible = (1..=PREALLOCATED_RANGES_MAX).contains(&count);
            let len = sectors_of(count.min(PREALLOCATED_RANGES_MAX)) * SECTOR_BYTES as usize;
            (file > 0 && is_possible && len <= bytes.len())
                .then_some((file, generation, count, len))
        })();
        let (file, generation, count, len) = head.ok_or(FormatError::Content(WHAT))?;
        if bytes[4..8] != crc_of(&bytes[..len]).to_le_bytes() {
            return Err(FormatError::Checksum(WHAT));
        }
        let mut ranges = RangeSet::default();
        let mut before = None;
        for _ in 0..count {
            let range =
                next_range(&mut from).filter(|range| before.is_none_or(|end| end < range.start));
            let range = range.ok_or(FormatError::Content(WHAT))?;
            before = Some(range.end);
            ranges.insert(range);
        }
        if !is_zero(&bytes[read(&from)..len]) {
            return Err(FormatError::Content(WHAT));
        }
        Ok(Some(Preallocation {
            file,
            generation,
            ranges,
        }))
    }
}

fn next_range(from: &mut ByteReader<'_>) -> Option<Range<u64>> {
    let (start, sectors) = (from.uint(8)?, from.uint(8)?);
    let end = start.checked_add(sectors)?;
    (start < end).then_some(start..end)
}

/// Returns the number of sectors that a record with `ranges` ranges takes.
pub(crate) fn sectors_of(ranges: usize) -> usize {
    (HEADER + RANGE * ranges).div_ceil(SECTOR_BYTES as usize)
}
