//! A segment while it is being filled: its records, the newest of them still open.
//!
//! Plain data, beside the segment's bytes in memory ([`RamSegment`]). Invariants:
//! - A record's bytes change only while it is the open one.
//! - A segment of more than `bare_records` records ends with a summary, and room for it is kept from the moment the record
//!   is opened that exceeds the limit. A segment of fewer records is *bare*: its headers are all that lists what it holds, and
//!   data may fill it to its last block.

use forebay_units::{Epoch, RecordSeq, SegmentSeq};

use crate::format::entry::{Entry, Layout};
use crate::format::envelope::{HEADER_BYTES, VolumeId};
use crate::format::record::{RECORD_ENTRY_BYTES_MAX, Record};
use crate::format::summary::{Summary, SummaryRecord, summary_len, summary_record_bytes};
use crate::ram::RamSegment;
use crate::shape::Shape;

/// The record that is being filled.
struct OpenRecord<L: Layout> {
    offset: u32,
    entries: Vec<L::Entry>,
    /// Where in the segment each entry's data begins; 0 for those without. Parallel to `entries`.
    places: Vec<u32>,
    entry_bytes: usize,
    /// Where the next piece's bytes go.
    end: u32,
}

/// What a record says beside what it holds, once it is composed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closing {
    /// Whose record it is.
    pub volume: VolumeId,
    /// The epoch.
    pub epoch: Epoch,
    /// Its number.
    pub seq: RecordSeq,
    /// Every record up to this one is durable.
    pub stable: RecordSeq,
    /// Its last write goes on in the next record.
    pub continues: bool,
}

/// What a segment's summary says beside what the segment holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sealing {
    /// Whose segment it is.
    pub volume: VolumeId,
    /// The epoch.
    pub epoch: Epoch,
    /// Every record up to this one is durable.
    pub stable: RecordSeq,
    /// The builder fills the space behind the records with zeroes if it is at most so many bytes, and leaves more as it is.
    pub fill: u32,
}

/// The segment that records are being appended to.
pub struct Builder<L: Layout> {
    seq: SegmentSeq,
    shape: Shape,
    /// The most records of a segment without a summary.
    bare_records: usize,
    /// Closed records, as the summary will list them.
    records: Vec<SummaryRecord<L>>,
    /// Bytes those take in the summary's body.
    body: usize,
    /// Where the next record's header goes.
    at: u32,
    record: Option<OpenRecord<L>>,
}

impl<L: Layout> Builder<L> {
    /// An empty segment, which gets no summary if it has at most `bare_records` records when it ends.
    pub fn new(seq: SegmentSeq, shape: Shape, bare_records: usize) -> Builder<L> {
        Builder {
            seq,
            shape,
            bare_records,
            records: Vec::new(),
            body: 0,
            at: 0,
            record: None,
        }
    }

    /// Which segment this is.
    pub fn seq(&self) -> SegmentSeq {
        self.seq
    }

    /// Where the next record would begin, in bytes from the segment's start.
    pub fn at(&self) -> u32 {
        self.at
    }

    /// Leaves a gap before the next record, in whole blocks. There must be no open record.
    pub fn skip(&mut self, gap: u32) {
        debug_assert!(self.record.is_none());
        self.at += gap;
    }

    /// Closed records.
    pub fn records(&self) -> &[SummaryRecord<L>] {
        &self.records
    }

    /// True if a record is open.
    pub fn has_open_record(&self) -> bool {
        self.record.is_some()
    }

    /// Bytes in the open record, its header included.
    pub fn open_record_bytes(&self) -> u32 {
        let record = self.record.as_ref();
        record.map_or(0, |record| record.end - record.offset)
    }

    /// True if the open record ends with a block, and its header has room for no more than `entry_bytes` of entries: ended here,
    /// it is not padded.
    pub fn should_end(&self, entry_bytes: usize) -> bool {
        self.record.as_ref().is_some_and(|record| {
            let aligned = record.end.is_multiple_of(self.shape.block);
            aligned && record.entry_bytes + entry_bytes > RECORD_ENTRY_BYTES_MAX
        })
    }

    /// Entries of the open record, oldest first.
    pub fn open_entries(&self) -> &[L::Entry] {
        self.record.as_ref().map_or(&[], |record| &record.entries)
    }

    /// The byte of the segment at which its summary would begin if it ended now: the segment's length if it would have no summary.
    pub fn summary_at(&self) -> u32 {
        self.shape.segment_bytes - self.summary_bytes(self.records.len(), self.body) as u32
    }

    /// Bytes to keep for the summary of a segment with so many records, which take `body` bytes there.
    fn summary_bytes(&self, records: usize, body: usize) -> usize {
        match records <= self.bare_records {
            true => 0,
            false => summary_len(body),
        }
    }

    /// True if records up to `end`, of which one is not closed yet, and their summary have room. The records take `body`
    /// bytes there.
    fn holds(&self, end: u32, body: usize) -> bool {
        let summary = self.summary_bytes(self.records.len() + 1, body);
        let need = u64::from(self.shape.padded(end)) + summary as u64;
        need <= u64::from(self.shape.segment_bytes)
    }

    /// True if an entry that is `entry_bytes` long, with `len` bytes of data, fits the open record.
    pub fn fits_record(&self, entry_bytes: usize, len: u32) -> bool {
        let Some(record) = &self.record else {
            return false;
        };
        let body = self.body + summary_record_bytes::<L>() + record.entry_bytes + entry_bytes;
        let header_has_room = record.entry_bytes + entry_bytes <= RECORD_ENTRY_BYTES_MAX;
        header_has_room && self.holds(record.end + len, body)
    }

    /// True if such an entry fits a further record in this segment; none may be open.
    pub fn fits_new_record(&self, entry_bytes: usize, len: u32) -> bool {
        let body = self.body + summary_record_bytes::<L>() + entry_bytes;
        self.holds(Shape::payload_at(self.at) + len, body)
    }

    /// True if `bytes` of data in at most `entries` entries of up to `entry_bytes_max` surely fit what is
    /// left, however they are cut into records.
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

    /// Opens a record. None may be open.
    pub fn open_record(&mut self) {
        debug_assert!(self.record.is_none());
        self.record = Some(OpenRecord {
            offset: self.at,
            entries: Vec::new(),
            places: Vec::new(),
            entry_bytes: 0,
            end: Shape::payload_at(self.at),
        });
    }

    /// Adds an entry with `len` bytes of data to the open record, which has room for it; says where in the
    /// segment the data goes.
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

    /// The entry of the open record whose data begins at `place` of the segment: the newest are the likeliest.
    pub fn open_entry_at(&mut self, place: u32) -> Option<&mut L::Entry> {
        let record = self.record.as_mut()?;
        if !(record.offset..record.end).contains(&place) {
            return None;
        }
        let n = record.places.iter().rposition(|at| *at == place)?;
        Some(&mut record.entries[n])
    }

    /// Composes the open record, so that it can be written. Says whether there was one.
    pub fn close_record(&mut self, ram: &mut RamSegment, closing: &Closing) -> bool {
        let Some(record) = self.record.take() else {
            return false;
        };
        let end = self.shape.padded(record.end);
        let payload = Shape::payload_at(record.offset);
        let header = Record::<L> {
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

    /// Ends the segment, with its summary unless the segment is bare. There must be a closed record and none open.
    ///
    /// Behind the records of a bare segment may be what the slot held before, a summary among it. No reader takes that for
    /// part of this segment: a header or a summary has the number of its segment, and a number is given once.
    ///
    /// # Panics
    /// If there is none.
    pub fn seal(self, ram: &mut RamSegment, end: &Sealing) {
        debug_assert!(self.record.is_none());
        let segment_bytes = self.shape.segment_bytes;
        let last = self.records.last().expect("it holds something").seq;
        let from = self.at;
        let bytes = match self.records.len() <= self.bare_records {
            true => Vec::new(),
            false => self.summary(end).encode(),
        };
        let at = segment_bytes - bytes.len() as u32;
        assert!(from <= at, "room for the summary was kept");
        ram.unfrozen(at..segment_bytes).copy_from_slice(&bytes);
        let skip = at - from > end.fill;
        let from = if skip { at } else { from };
        ram.unfrozen(from..at).fill(0);
        ram.seal(from..segment_bytes, last);
    }

    fn summary(self, end: &Sealing) -> Summary<L> {
        Summary {
            volume: end.volume,
            epoch: end.epoch,
            segment: self.seq,
            first: self.records.first().expect("it holds something").seq,
            stable: end.stable,
            records: self.records,
        }
    }
}

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;
