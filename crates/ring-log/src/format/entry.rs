//! Entries of a record: single changes to the volume.

use forebay_segment_log::format::envelope::ByteReader;
use forebay_units::{BlockNumber, LINE_SECTORS, Sector};

/// Bytes of a data entry.
pub(crate) const DATA_ENTRY_BYTES: usize = 10;
/// Bytes of a range entry.
pub(crate) const RANGE_ENTRY_BYTES: usize = 13;
/// Numbers of 4 KiB blocks are below this limit: five bytes.
const LINES_END: u64 = 1 << 40;
/// Flag in the tag of a zero range: release the range's space on the data device.
const UNMAP: u8 = 1;
/// Sector numbers and sector counts are below this limit: six bytes.
const SECTORS_END: u64 = 1 << 48;

/// Meaning of a range without data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RangeKind {
    /// The range reads as zeroes, and keeps its space on the data device.
    Zero,
    /// The range reads as zeroes, and its space on the data device is released.
    Unmap,
    /// The data of the range is no longer needed.
    Discard,
    /// The data was damaged in the log. The range cannot be read until it is written again.
    Lost,
}

/// One of the changes that a record makes to the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingEntry {
    /// New data within one 4 KiB block. The bytes are the next ones in the record's payload.
    Data {
        /// First sector on the volume.
        sector: Sector,
        /// Number of sectors, 1 to 8. The data does not extend beyond the block.
        sectors: u8,
        /// CRC32C of the data.
        crc: u32,
    },
    /// A range without data.
    Range {
        /// New state of the range.
        kind: RangeKind,
        /// First sector on the volume.
        sector: Sector,
        /// Number of sectors, at least 1.
        sectors: u64,
    },
}

impl RingEntry {
    /// Returns the sectors of payload that belong to this entry.
    pub fn payload_sectors(&self) -> u64 {
        match self {
            RingEntry::Data { sectors, .. } => u64::from(*sectors),
            RingEntry::Range { .. } => 0,
        }
    }
}

impl forebay_segment_log::RecordEntry for RingEntry {
    const BYTES_MIN: usize = DATA_ENTRY_BYTES;

    fn encoded_len(&self) -> usize {
        match self {
            RingEntry::Data { .. } => DATA_ENTRY_BYTES,
            RingEntry::Range { .. } => RANGE_ENTRY_BYTES,
        }
    }

    fn payload_sectors(&self) -> u64 {
        RingEntry::payload_sectors(self)
    }

    fn is_sound(&self, data: &[u8]) -> bool {
        match self {
            RingEntry::Data { crc, .. } => crc32c::crc32c(data) == *crc,
            RingEntry::Range { .. } => true,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            RingEntry::Data {
                sector,
                sectors,
                crc,
            } => {
                assert!(sector.line().0 < LINES_END, "{sector} cannot be written");
                out.push(sector.in_line() << 3 | (sectors - 1));
                out.extend_from_slice(&sector.line().0.to_le_bytes()[..5]);
                out.extend_from_slice(&crc.to_le_bytes());
            }
            RingEntry::Range {
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

    fn decode(from: &mut ByteReader<'_>) -> Option<RingEntry> {
        let tag = from.take(1)?[0];
        let kind = match (tag >> 6, tag & 0x3f) {
            (0, _) => {
                let (first, sectors) = (u64::from(tag >> 3), (tag & 7) + 1);
                let line = BlockNumber(from.uint(5)?);
                let crc = from.uint(4)? as u32;
                let sector = line.first_sector().plus(first);
                return (first + u64::from(sectors) <= LINE_SECTORS).then_some(RingEntry::Data {
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
        (sectors > 0).then_some(RingEntry::Range {
            kind,
            sector,
            sectors,
        })
    }
}
