//! State of the log: the ring, the open segment, writes in flight, and durable records.
//!
//! This module is plain data and never waits: `write.rs` carries out its decisions. Appending is synchronous. So a
//! write with several entries is composed at once, and no other entry comes between its entries.
//!
//! The log fills one segment at a time ([`SegmentBuilder`]). [`InFlightSegments`] holds the segments on their way to the device.
//! Invariants beside those of the two types:
//! - `tail <= stable_segment <= next_segment`, and `next_segment - tail <= segment_count`.

pub(crate) mod copies;
pub(crate) mod place;
mod room;

use std::collections::VecDeque;
use std::ops::Range;

use forebay_segment_log::{
    HeaderFields, InFlightSegments, RecordComposer, RecordEntry as _, SegmentBuilder,
    SummaryRecord, WriteJob,
};
use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, Sector, SegmentSeq};

use crate::format::{RangeKind, RingEntry, RingLayout, VolumeId};
use crate::ring::{LogAddr, RingGeometry};
use place::RecordPlacement;

/// Segments reserved for the engine's own records, so that a full ring never blocks the engine.
pub const SEGMENTS_RESERVED: u64 = 2;
/// Maximum number of segments between the first record that is not known to be durable and the head. Recovery looks at
/// most this far beyond the end of the chain.
pub const UNSTABLE_SEGMENTS_MAX: u64 = 64;
/// Maximum number of unflushed segments before the log flushes them by itself.
const FLUSH_AFTER_SEGMENTS: u64 = 8;
/// Each segment gets a summary: recovery and destaging read only this summary.
const BARE_RECORDS: usize = 0;

/// State of a log in use.
pub(crate) struct RingState {
    pub(crate) ring: RingGeometry,
    pub(crate) volume: VolumeId,
    pub(crate) epoch: Epoch,
    pub(crate) tail: SegmentSeq,
    /// Segment that will be opened next.
    pub(crate) next_segment: SegmentSeq,
    /// Record that will be opened next.
    pub(crate) next_record: RecordSeq,
    stable_segment: SegmentSeq,
    /// First record of each segment from the tail on.
    firsts: VecDeque<RecordSeq>,
    open: Option<SegmentBuilder<RingLayout>>,
    /// Placement of the next record, if it does not directly follow the last one.
    placement: Option<RecordPlacement>,
    /// True if entries were appended that no [`RingState::end_group`] has ended yet.
    group_begun: bool,
    flight: InFlightSegments,
    /// Number of readers of each slot. A counter has the width of an address, and each reader is a value in memory, so
    /// a counter cannot overflow.
    pins: Vec<usize>,
}

/// State with which a recovered log continues.
#[derive(Clone, Debug)]
pub(crate) struct LogResumption {
    pub(crate) epoch: Epoch,
    pub(crate) tail: SegmentSeq,
    pub(crate) next_segment: SegmentSeq,
    pub(crate) next_record: RecordSeq,
    /// First record of each segment in `tail..next_segment`.
    pub(crate) firsts: VecDeque<RecordSeq>,
}

impl RingState {
    pub(crate) fn new(ring: RingGeometry, volume: VolumeId, resume: LogResumption) -> RingState {
        RingState {
            ring,
            volume,
            epoch: resume.epoch,
            tail: resume.tail,
            next_segment: resume.next_segment,
            next_record: resume.next_record,
            stable_segment: resume.next_segment,
            firsts: resume.firsts,
            open: None,
            placement: None,
            group_begun: false,
            flight: InFlightSegments::new(ring.shape(), resume.next_record.prev(), 0),
            pins: vec![0; ring.segment_count as usize],
        }
    }

    /// Appends data within one 4 KiB block. The caller must have checked the free space.
    pub(crate) fn append_data(&mut self, sector: Sector, bytes: &[u8], crc: u32) -> LogAddr {
        let sectors = bytes.len() as u64 / SECTOR_BYTES;
        let entry = RingEntry::Data {
            sector,
            sectors: sectors as u8,
            crc,
        };
        let place = self.append(entry, bytes.len() as u32);
        self.fill(place, bytes)
    }

    /// Copies data to its place in the open segment; returns its address.
    fn fill(&mut self, place: u32, bytes: &[u8]) -> LogAddr {
        let seq = self.open.as_ref().expect("a segment is open").seq();
        let ram = self.flight.segment_mut(seq);
        ram.unfrozen(place..place + bytes.len() as u32)
            .copy_from_slice(bytes);
        self.ring.addr(seq, place)
    }

    /// Appends a range without data; returns the record that contains it.
    pub(crate) fn append_range(
        &mut self,
        kind: RangeKind,
        sector: Sector,
        sectors: u64,
    ) -> RecordSeq {
        self.append(
            RingEntry::Range {
                kind,
                sector,
                sectors,
            },
            0,
        );
        self.next_record.prev()
    }

    /// Appends the entry to the open record, and opens a segment or record if necessary. Returns the place of its
    /// bytes.
    fn append(&mut self, entry: RingEntry, len: u32) -> u32 {
        self.make_room(entry.encoded_len(), len);
        let open = self.open.as_mut().expect("a segment is open");
        self.group_begun = true;
        open.push(entry, len)
    }

    fn make_room(&mut self, entry_bytes: usize, len: u32) {
        self.place_next();
        if let Some(open) = &self.open {
            if open.fits_record(entry_bytes, len) {
                return;
            }
            self.close_record();
            let open = self.open.as_ref().expect("still open");
            if !open.fits_new_record(entry_bytes, len) {
                self.seal();
            }
        }
        if self.open.is_none() {
            self.open_segment();
        }
        self.open_record();
    }

    fn open_segment(&mut self) {
        let seq = self.next_segment;
        assert!(
            self.free_segments() > 0,
            "appended to a full ring without a check for free space"
        );
        assert_eq!(
            self.pins[self.ring.slot(seq) as usize],
            0,
            "reused a segment being read"
        );
        self.next_segment = seq.next();
        self.firsts.push_back(self.next_record);
        self.flight.begin_segment(seq);
        self.open = Some(SegmentBuilder::new(seq, self.ring.shape(), BARE_RECORDS));
    }

    fn open_record(&mut self) {
        self.next_record = self.next_record.next();
        self.open.as_mut().expect("a segment is open").open_record();
    }

    /// Ends a write: all entries since the end of the last write are applied together or not at all.
    pub(crate) fn end_group(&mut self) {
        self.group_begun = false;
    }

    /// Returns the record being filled, if any.
    pub(crate) fn open_record_seq(&self) -> Option<RecordSeq> {
        let open = self.open.as_ref().filter(|open| open.has_open_record());
        open.map(|_| self.next_record.prev())
    }

    /// Returns the bytes in the record being filled.
    pub(crate) fn open_record_bytes(&self) -> u32 {
        self.open
            .as_ref()
            .map_or(0, SegmentBuilder::open_record_bytes)
    }

    /// Overwrites data that lies, with exactly this extent, in the record being filled: superseded bytes of the same
    /// record need not be logged (the paper's compaction). Returns false otherwise.
    pub(crate) fn overwrite(
        &mut self,
        addr: LogAddr,
        sector: Sector,
        bytes: &[u8],
        crc: u32,
    ) -> bool {
        let Some(open) = &mut self.open else {
            return false;
        };
        if self.ring.addr(open.seq(), 0) != self.ring.addr_of_segment(addr) {
            return false;
        }
        let place = self.ring.offset_of(addr);
        let Some(entry) = open.open_entry_at(place) else {
            return false;
        };
        let replacement = RingEntry::Data {
            sector,
            sectors: (bytes.len() as u64 / SECTOR_BYTES) as u8,
            crc,
        };
        let same_extent = matches!(entry, RingEntry::Data { sector: old, .. } if *old == sector)
            && entry.payload_sectors() == replacement.payload_sectors();
        if !same_extent {
            return false;
        }
        *entry = replacement;
        self.fill(place, bytes);
        self.group_begun = true;
        true
    }

    /// Composes the record being filled, if any, so that it can be written.
    pub(crate) fn close_record(&mut self) {
        let Some(open) = &mut self.open else { return };
        let closing = HeaderFields {
            volume: self.volume,
            epoch: self.epoch,
            seq: self.next_record.prev(),
            stable: self.flight.stable(),
            continues: self.group_begun,
        };
        let ram = self.flight.segment_mut(open.seq());
        if open.close_record(ram, &closing) {
            self.flight.record_closed(closing.seq, closing.continues);
        }
    }

    /// Returns the newest durable record; all records before it are durable, too.
    pub(crate) fn stable(&self) -> RecordSeq {
        self.flight.stable()
    }

    /// Returns the first record of a segment. For the next segment, this is the next record.
    pub(crate) fn first_record(&self, segment: SegmentSeq) -> RecordSeq {
        let known = self.firsts.get(segment.since(self.tail) as usize);
        known.copied().unwrap_or(self.next_record)
    }

    /// Returns the oldest segment that is still in memory or not known to be durable.
    pub(crate) fn destage_limit(&self) -> SegmentSeq {
        let in_memory = self.flight.oldest();
        in_memory.map_or(self.stable_segment, |oldest| {
            oldest.min(self.stable_segment)
        })
    }

    /// Returns the closed records of a segment that is being filled.
    pub(crate) fn open_records(&self, segment: SegmentSeq) -> &[SummaryRecord<RingLayout>] {
        let open = self.open.as_ref().filter(|open| open.seq() == segment);
        open.map_or(&[], SegmentBuilder::records)
    }

    /// Returns the number of segments without records.
    pub(crate) fn free_segments(&self) -> u64 {
        self.ring.segment_count - self.next_segment.since(self.tail)
    }

    /// Returns the number of segments with records that are not known to be durable.
    pub(crate) fn unstable_segments(&self) -> u64 {
        self.next_segment.since(self.stable_segment)
    }

    /// Releases the segments before `tail` to the ring.
    pub(crate) fn set_tail(&mut self, tail: SegmentSeq) {
        assert!(
            tail <= self.stable_segment,
            "the tail would pass records that are not durable"
        );
        let freed = tail.since(self.tail) as usize;
        self.firsts.drain(..freed);
        self.tail = tail;
    }

    /// Returns the bytes at `addr`, if their segment is still in memory.
    pub(crate) fn in_ram(&self, addr: LogAddr, sectors: u64) -> Option<&[u8]> {
        let segment = self.ring.segment_of(addr, self.flight.oldest()?);
        let ram = self.flight.segment(segment)?;
        let offset = self.ring.offset_of(addr);
        let bytes = ram.bytes(offset..offset + (sectors * SECTOR_BYTES) as u32);
        Some(bytes.expect("the map names only data that was appended in one piece"))
    }

    /// Returns the memory used by segments, in bytes.
    pub(crate) fn ram_bytes(&self) -> u64 {
        self.flight.ram_bytes(self.ring.shape())
    }

    pub(crate) fn pin(&mut self, slots: Range<u64>) {
        for slot in slots {
            self.pins[slot as usize] += 1;
        }
    }

    /// Releases slots; returns true if one of them lost its last reader. A writer may wait for this slot.
    pub(crate) fn unpin(&mut self, slots: Range<u64>) -> bool {
        let mut free = false;
        for slot in slots {
            self.pins[slot as usize] -= 1;
            free |= self.pins[slot as usize] == 0;
        }
        free
    }
}

impl RecordComposer for RingState {
    fn flight(&self) -> &InFlightSegments {
        &self.flight
    }

    fn flight_mut(&mut self) -> &mut InFlightSegments {
        &mut self.flight
    }

    fn segment_at(&self, segment: SegmentSeq) -> u64 {
        self.ring.segment_at(segment)
    }

    fn open(&self) -> Option<u64> {
        self.open_record_seq().map(|record| record.0)
    }

    fn open_bytes(&self) -> u32 {
        self.open_record_bytes()
    }

    fn close(&mut self) -> RecordSeq {
        self.close_record();
        self.next_record.prev()
    }

    /// The limit is at most half of the segments that memory may hold, so that writers can continue during the flush.
    fn wants_flush(&self) -> bool {
        self.unstable_segments() > FLUSH_AFTER_SEGMENTS.min(self.flight.room_max() as u64 / 2)
    }

    fn set_stable(&mut self, covered: RecordSeq) {
        self.flight.set_stable(covered);
        let open = self.open.as_ref().map(SegmentBuilder::seq);
        while self.stable_segment < self.next_segment && Some(self.stable_segment) != open {
            let next = self.stable_segment.next();
            let next_first = self.first_record(next);
            if next_first > self.flight.stable().next() {
                break;
            }
            self.stable_segment = next;
        }
    }

    fn take_joining(&mut self, job: &WriteJob, most: usize) -> Option<(u64, WriteJob)> {
        self.take_behind(job, most)
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
