//! The header of a record.

use forebay_units::{Epoch, RecordSeq, SegmentSeq};

use super::entry::{LogLayout, encode_entries, payload_fits};
use super::envelope::{
    ByteReader, FormatError, HEADER_BYTES, VERSION, VolumeId, begin, finish, open,
};

const ENTRIES_AT: usize = 76;
/// The most bytes of entries in a record's header.
pub const RECORD_ENTRY_BYTES_MAX: usize = HEADER_BYTES - ENTRIES_AT;

const FLAG_CONTINUES: u16 = 1;

/// The header of a record, with its changes of the volume. The payload follows directly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordHeader<L: LogLayout> {
    /// The volume's identity.
    pub volume: VolumeId,
    /// The epoch in which the record was written.
    pub epoch: Epoch,
    /// The segment that contains the record.
    pub segment: SegmentSeq,
    /// The offset of the header in the segment, in bytes.
    pub offset: u32,
    /// The record's number in the order of all records.
    pub seq: RecordSeq,
    /// Every record up to this number was durable when this record was composed.
    pub stable: RecordSeq,
    /// Bytes of payload, padded to the log's block.
    pub payload_bytes: u32,
    /// True if the last write continues in the next record. Recovery applies both records or neither.
    pub continues: bool,
    /// The changes, in order.
    pub entries: Vec<L::Entry>,
}

impl<L: LogLayout> RecordHeader<L> {
    /// Encodes the header.
    ///
    /// # Panics
    /// If the entries do not fit.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = begin(L::RECORD, VERSION, self.volume);
        for n in [self.epoch.0, self.segment.0, self.seq.0, self.stable.0] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.payload_bytes.to_le_bytes());
        out.extend_from_slice(&(self.entries.len() as u16).to_le_bytes());
        out.extend_from_slice(&continues_flag(self.continues).to_le_bytes());
        debug_assert_eq!(out.len(), ENTRIES_AT);
        encode_entries(&self.entries, &mut out);
        finish(out)
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// If the bytes are not a header of this version, or are damaged or inconsistent.
    pub fn decode(bytes: &[u8]) -> Result<RecordHeader<L>, FormatError> {
        const WHAT: &str = "record header";
        let mut from = open(bytes, L::RECORD, WHAT)?;
        let decoded = (|| {
            let volume = from.volume()?;
            let (epoch, segment) = (Epoch(from.counter()?), SegmentSeq(from.counter()?));
            let (seq, stable) = (RecordSeq(from.counter()?), RecordSeq(from.counter()?));
            let (offset, payload_bytes) = (from.uint(4)? as u32, from.uint(4)? as u32);
            let (count, continues) = (from.uint(2)? as usize, from.continues()?);
            let entries = from.entries(count)?;
            let record = RecordHeader {
                volume,
                epoch,
                segment,
                offset,
                seq,
                stable,
                payload_bytes,
                continues,
                entries,
            };
            payload_fits(&record.entries, record.payload_bytes).then_some(record)
        })();
        decoded.ok_or(FormatError::Content(WHAT))
    }
}

/// Returns the flags of a record, as its header and its segment's summary contain them.
pub(super) fn continues_flag(continues: bool) -> u16 {
    if continues { FLAG_CONTINUES } else { 0 }
}

impl ByteReader<'_> {
    pub(super) fn continues(&mut self) -> Option<bool> {
        match self.uint(2)? as u16 {
            0 => Some(false),
            FLAG_CONTINUES => Some(true),
            _ => None,
        }
    }
}
