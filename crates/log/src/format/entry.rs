//! What a record says of the volume, piece by piece.

use forebay_segments::format::envelope::Reader;
use forebay_units::{LINE_SECTORS, Line, Sector};

/// Bytes of a data entry.
pub(crate) const DATA_ENTRY_BYTES: usize = 10;
/// Bytes of a range entry.
pub(crate) const RANGE_ENTRY_BYTES: usize = 13;
/// Lines are numbered below this: five bytes.
const LINES_END: u64 = 1 << 40;
/// In the tag of a zero range: its room is given back.
const UNMAP: u8 = 1;
/// Sectors are numbered, and counted, below this: six bytes.
const SECTORS_END: u64 = 1 << 48;

/// What a range without data means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RangeKind {
    /// It reads as zeroes, and keeps its room at home.
    Zero,
    /// It reads as zeroes, and its room at home is given back.
    Unmap,
    /// It is no longer needed.
    Discard,
    /// Its data was damaged in the log: it cannot be read until it is written again.
    Lost,
}

/// One piece of what a record does to the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// New data for a piece of one line; its bytes are next in the record's payload.
    Data {
        /// Where on the volume.
        sector: Sector,
        /// How many sectors, 1 to 8, not beyond the line.
        sectors: u8,
        /// CRC32C of the data.
        crc: u32,
    },
    /// A range without data.
    Range {
        /// What it becomes.
        kind: RangeKind,
        /// Where on the volume.
        sector: Sector,
        /// How many sectors, at least 1.
        sectors: u64,
    },
}

impl Entry {
    /// Sectors of payload it has.
    pub fn payload_sectors(&self) -> u64 {
        match self {
            Entry::Data { sectors, .. } => u64::from(*sectors),
            Entry::Range { .. } => 0,
        }
    }
}

impl forebay_segments::Entry for Entry {
    const BYTES_MIN: usize = DATA_ENTRY_BYTES;

    fn encoded_len(&self) -> usize {
        match self {
            Entry::Data { .. } => DATA_ENTRY_BYTES,
            Entry::Range { .. } => RANGE_ENTRY_BYTES,
        }
    }

    fn payload_sectors(&self) -> u64 {
        Entry::payload_sectors(self)
    }

    fn is_sound(&self, data: &[u8]) -> bool {
        match self {
            Entry::Data { crc, .. } => crc32c::crc32c(data) == *crc,
            Entry::Range { .. } => true,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Entry::Data {
                sector,
                sectors,
                crc,
            } => {
                assert!(sector.line().0 < LINES_END, "{sector} cannot be written");
                out.push(sector.in_line() << 3 | (sectors - 1));
                out.extend_from_slice(&sector.line().0.to_le_bytes()[..5]);
                out.extend_from_slice(&crc.to_le_bytes());
            }
            Entry::Range {
                kind,
                sector,
                sectors,
            } => {
                let tag = match kind {
                    RangeKind::Zero => 1 << 6,
                    RangeKind::Unmap => 1 << 6 | UNMAP,
                    RangeKind::Discard => 2 << 6,
                    RangeKind::Lost => 3u8 << 6,
                };
                let fits = sector.0 < SECTORS_END && sectors < SECTORS_END;
                assert!(fits, "{sectors} sectors from {sector} cannot be written");
                out.push(tag);
                out.extend_from_slice(&sector.0.to_le_bytes()[..6]);
                out.extend_from_slice(&sectors.to_le_bytes()[..6]);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Entry> {
        let tag = from.take(1)?[0];
        let kind = match (tag >> 6, tag & 0x3f) {
            (0, _) => {
                let (first, sectors) = (u64::from(tag >> 3), (tag & 7) + 1);
                let line = Line(from.uint(5)?);
                let crc = from.uint(4)? as u32;
                let sector = line.first_sector().plus(first);
                return (first + u64::from(sectors) <= LINE_SECTORS).then_some(Entry::Data {
                    sector,
                    sectors,
                    crc,
                });
            }
            (1, 0) => RangeKind::Zero,
            (1, UNMAP) => RangeKind::Unmap,
            (2, 0) => RangeKind::Discard,
            (3, 0) => RangeKind::Lost,
            _ => return None,
        };
        let (sector, sectors) = (Sector(from.uint(6)?), from.uint(6)?);
        (sectors > 0).then_some(Entry::Range {
            kind,
            sector,
            sectors,
        })
    }
}
