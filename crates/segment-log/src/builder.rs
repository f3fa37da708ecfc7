//! A segment while it is being filled. Its last record may be open.
//!
//! Plain state; the segment's bytes are in memory ([`RamSegment`]). Invariants:
//! - The bytes of a record change only while the record is open.
//! - A segment with more than `bare_records` records ends with a summary. Space for the summary is reserved from the
//!   moment at which the record that exceeds the limit is opened. A segment with fewer records is *bare*: only its
//!   record headers list its content, and data may fill it to its last block.

use forebay_units::{Epoch, RecordSeq, SegmentSeq};

use crate::format::entry::{LogLayout, RecordEntry};
use crate::format::envelope::{HEADER_BYTES, VolumeId};
use crate::format::record::{RECORD_ENTRY_BYTES_MAX, RecordHeader};
use crate::format::summary::{SegmentSummary, SummaryRecord, summary_len, summary_record_bytes};
use crate::ram::RamSegment;
use crate::shape::SegmentShape;

/// The open record.
struct OpenRecord<L: LogLayout> {
    offset: u32,
    entries: Vec<L::Entry>,
    /// The offset in the segment at which each entry's data begins; 0 without data. Parallel to `entries`.
    places: Vec<u32>,
    entry_bytes: usize,
    /// The offset at which the next entry's data begins.
    end: u32,
}

/// Fields of a record's header that the commit adds when the record is composed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderFields {
    /// The volume's identity.
    pub volume: VolumeId,
    /// The epoch.
    pub epoch: Epoch,
    /// The record's number.
    pub seq: RecordSeq,
    /// Every record up to this number is durable.
    pub stable: RecordSeq,
    /// True if the last write of the record continues in the next record.
    pub continues: bool,
}

/// Fields of a segment's summary that the commit adds when the segment is sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SummaryFields {
    /// The volume's identity.
    pub volume: VolumeId,
    /// The epoch.
    pub epoch: Epoch,
    /// Every record up to this number is durable.
    pub stable: RecordSeq,
    /// The most bytes behind the records that the builder fills with zeroes. It leaves a longer space unchanged.
    pub fill: u32,
}

/// The segment that records are being appended to.
pub struct SegmentBuilder<L: LogLayout> {
    seq: SegmentSeq,
    shape: SegmentShape,
    /// The most records of a segment without a summary.
    bare_records: usize,
    /// Closed records, as the summary will list them.
    records: Vec<SummaryRecord<L>>,
    /// Bytes that the closed records take in the summary's body.
    body: usize,
    /// The offset of the next record's header.
    at: u32,
    record: Option<OpenRecord<L>>,
}

impl<L: LogLayout> SegmentBuilder<L> {
    /// Returns an empty segment, which gets no summary if it has at most `bare_records` records when it is sealed.
    pub fn new(seq: SegmentSeq, shape: SegmentShape, bare_records: usize) -> SegmentBuilder<L> {
        SegmentBuilder {
            seq,
            shape,
            bare_records,
            records: Vec::new(),
            body: 0,
            at: 0,
            record: None,
        }
    }

    /// Returns the number of the segment.
    pub fn seq(&self) -> SegmentSeq {
        self.seq
    }

    /// Returns the offset in the segment at which the next record would begin, in bytes.
    pub fn at(&self) -> u32 {
        self.at
    }

    /// Leaves a gap before the next record, in whole blocks. No record may be open.
    pub fn skip(&mut self, gap: u32) {
        debug_assert!(self.record.is_none());
        self.at += gap;
    }

    /// Returns the closed records.
    pub fn records(&self) -> &[SummaryRecord<L>] {
        &self.records
    }

    /// Returns true if a record is open.
    pub fn has_open_record(&self) -> bool {
        self.record.is_some()
    }

    /// Returns the bytes in the open record, including its header.
    pub fn open_record_bytes(&self) -> u32 {
        let record = self.record.as_ref();
        record.map_or(0, |record| record.end - record.offset)
    }

    /// Returns true if the open record ends at a block boundary, and its header has no space for more than
    /// `entry_bytes` of entries. If it is closed now, it needs no padding.
    pub fn should_end(&self, entry_bytes: usize) -> bool {
        self.record.as_ref().is_some_and(|record| {
            let aligned = record.end.is_multiple_of(self.shape.block);
            aligned && record.entry_bytes + entry_bytes > RECORD_ENTRY_BYTES_MAX
        })
    }

    /// Returns the entries of the open record, oldest first.
    pub fn open_entries(&self) -> &[L::Entry] {
        self.record.as_ref().map_or(&[], |record| &record.entries)
    }

    /// Returns the offset at which the summary would begin if the segment were sealed now: the segment's length without
    /// a summary.
    pub fn summary_at(&self) -> u32 {
        self.shape.segment_bytes - self.summary_bytes(self.records.len(), self.body) as u32
    }

    /// Returns the bytes to reserve for the summary of a segment with `records` records, which take `body` bytes in the
    /// summary.
    fn summary_bytes(&self, records: usize, body: usize) -> usize {
        if records <= self.bare_records {
            0
        } else {
            summary_len(body)
        }
    }

    /// Returns true if the segment has space for its records up to `end`, including one that is not closed yet, and for
    /// their summary. The records take `body` bytes in the summary.
    fn holds(&self, end: u32, body: usize) -> bool {
        let summary = self.summary_bytes(self.records.len() + 1, body);
        let need = u64::from(self.shape.padded(end)) + summary as u64;
        need <= u64::from(self.shape.segment_bytes)
    }

    /// Returns true if an entry of `entry_bytes` bytes with `len` bytes of data fits the open record.
    pub fn fits_record(&self, entry_bytes: usize, len: u32) -> bool {
        let Some(record) = &self.record else {
            return false;
        };
        let body = self.body + summary_record_bytes::<L>() + record.entry_bytes + entry_bytes;
        let header_has_room = record.entry_bytes + entry_bytes <= RECORD_ENTRY_BYTES_MAX;
        header_has_room && self.holds(record.end + len, body)
    }

    /// Returns true if the entry fits a new record in this segment. No record may be open.
    pub fn fits_new_record(&self, entry_bytes: usize, len: u32) -> bool {
        let body = self.body + summary_record_bytes::<L>() + entry_bytes;
        self.holds(SegmentShape::payload_at(self.at) + len, body)
    }

    /// Returns true if `bytes` of data in at most `entries` entries of up to `entry_bytes_max` bytes surely fit the
    /// remaining space, however they are divided into records.
    pub fn surely_fits(&self, bytes: u64, entries: u64, entry_bytes_max: usize) -> bool {
        let used = self.record.as_ref().map_or(self.at, |record| record.end);
        let pending = self.record.as_ref().map_or(0, |record| record.entry_bytes);
        let entry_bytes = entries as usize * entry_bytes_max;
        let headers = 2 + (pending + entry_bytes) / (RECORD_ENTRY_BYTES_MAX - entry_bytes_max);
        let body = self.body + pending + entry_bytes + headers * summary_record_bytes::<L>();
        let records = self.records.len() + usize::from(self.has_open_record()) + headers;
        let summary = self.summary_bytes(records, body);
        let padding = headers as u64 * u64::from(self.shape.block);
        let need = bytes + (headers * HEADER_BYTES + summary) as u64 + padding;
        u64::from(used) + need <= u64::from(self.shape.segment_bytes)
    }

    /// Opens a record. No record may be open.
    pub fn open_record(&mut self) {
        debug_assert!(self.record.is_none());
        self.record = Some(OpenRecord {
            offset: self.at,
            entries: Vec::new(),
            places: Vec::new(),
            entry_bytes: 0,
            end: SegmentShape::payload_at(self.at),
        });
    }

    /// Adds an entry with `len` bytes of data to the open record, which must have space for it. Returns the offset of
    /// the data in the segment.
    ///
    /// # Panics
    /// If no record is open.
    pub fn push(&mut self, entry: L::Entry, len: u32) -> u32 {
        let record = self.record.as_mut().expect("a record is open");
        let place = record.end;
        record.end += len;
        record.entry_bytes += entry.encoded_len_behind(record.entries.last());
        record.entries.push(entry);
        record.places.push(if len == 0 { 0 } else { place });
        place
    }

    /// Returns the entry of the open record whose data begins at offset `place`. The search begins with the newest
    /// entry, the most likely one.
    pub fn open_entry_at(&mut self, place: u32) -> Option<&mut L::Entry> {
        let record = self.record.as_mut()?;
        if !(record.offset..record.end).contains(&place) {
            return None;
        }
        let n = record.places.iter().rposition(|at| *at == place)?;
        Some(&mut record.entries[n])
    }

    /// Composes the open record, so that it can be written. Returns false if no record was open.
    pub fn close_record(&mut self, ram: &mut RamSegment, closing: &HeaderFields) -> bool {
        let Some(record) = self.record.take() else {
            return false;
        };
        let end = self.shape.padded(record.end);
        let payload = SegmentShape::payload_at(record.offset);
        let header = RecordHeader::<L> {
            volume: closing.volume,
            epoch: closing.epoch,
            segment: self.seq,
            offset: record.offset,
            seq: closing.seq,
            stable: closing.stable,
            payload_bytes: end - payload,
            continues: closing.continues,
            entries: record.entries,
        };
        ram.unfrozen(record.offset..payload)
            .copy_from_slice(&header.encode());
        ram.unfrozen(record.end..end).fill(0);
        ram.close(record.offset..end, closing.seq);
        self.at = end;
        self.body += summary_record_bytes::<L>() + record.entry_bytes;
        self.records.push(SummaryRecord {
            seq: closing.seq,
            offset: record.offset,
            payload_bytes: header.payload_bytes,
            continues: closing.continues,
            entries: header.entries,
        });
        true
    }

    /// Seals the segment, with a summary unless the segment is bare. It must have a closed record and no open record.
    ///
    /// The space behind the records of a bare segment may contain older data, including the summary of an earlier
    /// segment. Readers do not confuse it with this segment: headers and summaries contain the number of their segment,
    /// and numbers are never reused.
    ///
    /// # Panics
    /// If the segment has no closed record.
    pub fn seal(self, ram: &mut RamSegment, end: &SummaryFields) {
        debug_assert!(self.record.is_none());
        let segment_bytes = self.shape.segment_bytes;
        let last = self.records.last().expect("the segment has a record").seq;
        let from = self.at;
        let bytes = if self.records.len() <= self.bare_records {
            Vec::new()
        } else {
            self.summary(end).encode()
        };
        let at = segment_bytes - bytes.len() as u32;
        assert!(from <= at, "space for the summary was reserved");
        ram.unfrozen(at..segment_bytes).copy_from_slice(&bytes);
        let skip = at - from > end.fill;
        let from = if skip { at } else { from };
        ram.unfrozen(from..at).fill(0);
        ram.seal(from..segment_bytes, last);
    }

    fn summary(self, end: &SummaryFields) -> SegmentSummary<L> {
        SegmentSummary {
            volume: end.volume,
            epoch: end.epoch,
            segment: self.seq,
            first: self.records.first().expect("the segment has a record").seq,
            stable: end.stable,
            records: self.records,
        }
    }
}

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;
