//! The summary at the end of a full segment.

use forebay_units::{Epoch, RecordSeq, SegmentSeq};

use super::entry::{LogLayout, encode_entries, payload_fits};
use super::envelope::{
    ByteReader, CRC_AT, FormatError, HEADER_BYTES, VERSION, VOLUME_AT, VolumeId, begin,
    crc_without_field, preamble, stored_crc,
};
use super::record::continues_flag;

/// The offset of the length of the whole summary.
const TOTAL_AT: usize = 72;
const BODY_AT: usize = 76;
/// Bytes in a summary's body for each record, before its entries: the record's number, if the layout is numbered,
/// offset, length of the payload, number of entries, and flags.
pub(crate) const fn summary_record_bytes<L: LogLayout>() -> usize {
    if L::NUMBERED { 20 } else { 12 }
}

/// A record in a summary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SummaryRecord<L: LogLayout> {
    /// The record's number.
    pub seq: RecordSeq,
    /// The offset of its header in the segment, in bytes.
    pub offset: u32,
    /// Bytes of payload, padded to the log's block.
    pub payload_bytes: u32,
    /// As in [`super::RecordHeader::continues`].
    pub continues: bool,
    /// The changes, in order.
    pub entries: Vec<L::Entry>,
}

/// The list of all records at the end of a full segment. With it, recovery reads one place instead of every header.
///
/// The last block contains the fixed fields and the first part of the body. A longer body continues in the blocks
/// before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentSummary<L: LogLayout> {
    /// The volume's identity.
    pub volume: VolumeId,
    /// The epoch of all its records.
    pub epoch: Epoch,
    /// The segment.
    pub segment: SegmentSeq,
    /// The number of the first record. Without numbers of their own ([`LogLayout::NUMBERED`]), the other records have
    /// consecutive numbers.
    pub first: RecordSeq,
    /// Every record up to this number was durable when the summary was composed.
    pub stable: RecordSeq,
    /// The records, in order.
    pub records: Vec<SummaryRecord<L>>,
}

/// Returns the length in bytes of a summary with a body of `body` bytes.
pub fn summary_len(body: usize) -> usize {
    let first = HEADER_BYTES - BODY_AT;
    HEADER_BYTES + body.saturating_sub(first).next_multiple_of(HEADER_BYTES)
}

impl<L: LogLayout> SegmentSummary<L> {
    /// Encodes the summary, which belongs at the very end of the segment.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for record in &self.records {
            if L::NUMBERED {
                body.extend_from_slice(&record.seq.0.to_le_bytes());
            }
            body.extend_from_slice(&record.offset.to_le_bytes());
            body.extend_from_slice(&record.payload_bytes.to_le_bytes());
            body.extend_from_slice(&(record.entries.len() as u16).to_le_bytes());
            body.extend_from_slice(&continues_flag(record.continues).to_le_bytes());
            encode_entries(&record.entries, &mut body);
        }
        let total = summary_len(body.len());
        let mut last = begin(L::SUMMARY, VERSION, self.volume);
        for n in [self.epoch.0, self.segment.0, self.first.0, self.stable.0] {
            last.extend_from_slice(&n.to_le_bytes());
        }
        for n in [self.records.len() as u32, body.len() as u32, total as u32] {
            last.extend_from_slice(&n.to_le_bytes());
        }
        debug_assert_eq!(last.len(), BODY_AT);
        let here = body.len().min(HEADER_BYTES - BODY_AT);
        last.extend_from_slice(&body[..here]);
        last.resize(HEADER_BYTES, 0);
        let mut out = body[here..].to_vec();
        out.resize(total - HEADER_BYTES, 0);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&last), &out);
        last[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&last);
        out
    }

    /// Returns the end of the last record in the segment, in bytes.
    pub fn records_end(&self) -> u32 {
        let last = self.records.last();
        last.map_or(0, |last| {
            last.offset + HEADER_BYTES as u32 + last.payload_bytes
        })
    }

    /// Returns the length of the summary with this last block, in bytes; at least one block. Does not check the summary
    /// otherwise.
    ///
    /// # Errors
    /// If the block is not the last block of a summary, or contains an impossible length.
    pub fn total_len(last: &[u8], segment_bytes: u32) -> Result<usize, FormatError> {
        const WHAT: &str = "summary";
        let mut from = preamble(last, L::SUMMARY, WHAT)?;
        from.take(TOTAL_AT - VOLUME_AT)
            .ok_or(FormatError::Content(WHAT))?;
        let total = from.uint(4).ok_or(FormatError::Content(WHAT))? as usize;
        let fits = total >= HEADER_BYTES
            && total.is_multiple_of(HEADER_BYTES)
            && total < segment_bytes as usize;
        if fits {
            Ok(total)
        } else {
            Err(FormatError::Content(WHAT))
        }
    }

    /// Decodes a summary of the length that [`SegmentSummary::total_len`] returns.
    ///
    /// # Errors
    /// If the bytes are not a summary of this version, or are damaged or inconsistent.
    pub fn decode(bytes: &[u8]) -> Result<SegmentSummary<L>, FormatError> {
        const WHAT: &str = "summary";
        let split = bytes
            .len()
            .checked_sub(HEADER_BYTES)
            .ok_or(FormatError::Magic(WHAT))?;
        let (rest, last) = bytes.split_at(split);
        let mut from = preamble(last, L::SUMMARY, WHAT)?;
        if crc32c::crc32c_append(crc_without_field(last), rest) != stored_crc(last) {
            return Err(FormatError::Checksum(WHAT));
        }
        let decoded = (|| {
            let volume = from.volume()?;
            let (epoch, segment) = (Epoch(from.counter()?), SegmentSeq(from.counter()?));
            let (first, stable) = (RecordSeq(from.counter()?), RecordSeq(from.counter()?));
            let (count, body_len) = (from.uint(4)? as usize, from.uint(4)? as usize);
            let total = from.uint(4)? as usize;
            if total != bytes.len() || summary_len(body_len) != total {
                return None;
            }
            let mut body = last[BODY_AT..].to_vec();
            body.extend_from_slice(rest);
            let mut body = ByteReader(body.get(..body_len)?);
            let mut records = Vec::new();
            for n in 0..count as u64 {
                records.push(body.summary_record::<L>(first.plus(n))?);
            }
            let ascending = records.is_sorted_by(|a: &SummaryRecord<L>, b| a.seq < b.seq);
            let begins = records.first().is_some_and(|record| record.seq == first);
            (body.0.is_empty() && begins && ascending).then_some(SegmentSummary {
                volume,
                epoch,
                segment,
                first,
                stable,
                records,
            })
        })();
        decoded.ok_or(FormatError::Content(WHAT))
    }
}

impl ByteReader<'_> {
    fn summary_record<L: LogLayout>(&mut self, implied: RecordSeq) -> Option<SummaryRecord<L>> {
        let seq = if L::NUMBERED {
            RecordSeq(self.counter()?)
        } else {
            implied
        };
        let (offset, payload_bytes) = (self.uint(4)? as u32, self.uint(4)? as u32);
        let (count, continues) = (self.uint(2)? as usize, self.continues()?);
        let entries = self.entries(count)?;
        payload_fits(&entries, payload_bytes).then_some(SummaryRecord {
            seq,
            offset,
            payload_bytes,
            continues,
            entries,
        })
    }
}
