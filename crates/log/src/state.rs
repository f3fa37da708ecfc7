//! What is known of the log: the ring, the open segment, what is in flight and what is durable.
//!
//! Plain data and no waiting: `write.rs` does what this decides. Appending is synchronous, so a
//! write of many pieces is composed in one go and nothing comes between its pieces.
//!
//! One segment is filled at a time ([`Builder`]); what is on its way to the device is [`Flight`]'s. Invariants,
//! beside theirs:
//! - `tail <= stable_segment <= next_segment`, and `next_segment - tail <= segment_count`.

pub(crate) mod copies;
pub(crate) mod place;
mod room;

use std::collections::VecDeque;
use std::ops::Range;

use forebay_segments::{Builder, Closing, Composer, Entry as _, Flight, Job};
use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, Sector, SegmentSeq};

use crate::format::{Entry, RangeKind, Ring, VolumeId};
use crate::ring::{Addr, RingGeometry};
use place::Placement;

/// Segments that only the engine's own records may use, so that it is never stuck by a full ring.
pub const SEGMENTS_RESERVED: u64 = 2;
/// How many segments may lie between the first record that is not known durable and the head.
/// Recovery looks no further than this past the end of the chain.
pub const UNSTABLE_SEGMENTS_MAX: u64 = 64;
/// The most segments that may be written before they are flushed unasked.
const FLUSH_AFTER_SEGMENTS: u64 = 8;
/// Each segment gets a summary: recovery and destaging read one block of it.
const BARE_RECORDS: usize = 0;

/// What is known of a log that is in use.
pub(crate) struct State {
    pub(crate) ring: RingGeometry,
    pub(crate) volume: VolumeId,
    pub(crate) epoch: Epoch,
    pub(crate) tail: SegmentSeq,
    /// The segment that will be opened next.
    pub(crate) next_segment: SegmentSeq,
    /// The record that will be opened next.
    pub(crate) next_record: RecordSeq,
    stable_segment: SegmentSeq,
    /// First record of each segment from the tail on.
    firsts: VecDeque<RecordSeq>,
    open: Option<Builder<Ring>>,
    /// Where the record goes that is opened next, if not right behind the last.
    placement: Option<Placement>,
    /// Something was appended that no [`State::end_group`] has ended yet.
    group_begun: bool,
    flight: Flight,
    /// Readers of each slot. As wide as an address: each reader is a value in memory, so this cannot
    /// overflow.
    pins: Vec<usize>,
}

/// Where a recovered log goes on.
#[derive(Clone, Debug)]
pub(crate) struct Resume {
    pub(crate) epoch: Epoch,
    pub(crate) tail: SegmentSeq,
    pub(crate) next_segment: SegmentSeq,
    pub(crate) next_record: RecordSeq,
    /// First record of each segment from the tail to before `next_segment`.
    pub(crate) firsts: VecDeque<RecordSeq>,
}

impl State {
    pub(crate) fn new(ring: RingGeometry, volume: VolumeId, resume: Resume) -> State {
        State {
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
            flight: Flight::new(ring.shape(), resume.next_record.prev(), 0),
            pins: vec![0; ring.segment_count as usize],
        }
    }

    /// Appends a piece of data within one line. The caller has made sure of room.
    pub(crate) fn append_data(&mut self, sector: Sector, bytes: &[u8], crc: u32) -> Addr {
        let sectors = bytes.len() as u64 / SECTOR_BYTES;
        let entry = Entry::Data {
            sector,
            sectors: sectors as u8,
            crc,
        };
        let place = self.append(entry, bytes.len() as u32);
        self.fill(place, bytes)
    }

    /// Copies data to its place in the open segment; says its address.
    fn fill(&mut self, place: u32, bytes: &[u8]) -> Addr {
        let seq = self.open.as_ref().expect("a segment is open").seq();
        let ram = self.flight.segment_mut(seq);
        ram.unfrozen(place..place + bytes.len() as u32)
            .copy_from_slice(bytes);
        self.ring.addr(seq, place)
    }

    /// Appends a range without data, and says which record holds it.
    pub(crate) fn append_range(
        &mut self,
        kind: RangeKind,
        sector: Sector,
        sectors: u64,
    ) -> RecordSeq {
        self.append(
            Entry::Range {
                kind,
                sector,
                sectors,
            },
            0,
        );
        self.next_record.prev()
    }

    /// Puts the entry into the open record, opening what is needed; says where its bytes go.
    fn append(&mut self, entry: Entry, len: u32) -> u32 {
        self.make_room(entry.encoded_len(), len);
        let open = self.open.as_mut().expect("made room");
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
            "appended to a full ring without asking for room"
        );
        assert_eq!(
            self.pins[self.ring.slot(seq) as usize],
            0,
            "reused a segment being read"
        );
        self.next_segment = seq.next();
        self.firsts.push_back(self.next_record);
        self.flight.begin_segment(seq);
        self.open = Some(Builder::new(seq, self.ring.shape(), BARE_RECORDS));
    }

    fn open_record(&mut self) {
        self.next_record = self.next_record.next();
        self.open.as_mut().expect("a segment is open").open_record();
    }

    /// Ends a write: what was appended since the last one ended is applied together or not at all.
    pub(crate) fn end_group(&mut self) {
        self.group_begun = false;
    }

    /// The record being filled, if one is.
    pub(crate) fn open_record_seq(&self) -> Option<RecordSeq> {
        let open = self.open.as_ref().filter(|open| open.has_open_record());
        open.map(|_| self.next_record.prev())
    }

    /// Bytes in the record being filled.
    pub(crate) fn open_record_bytes(&self) -> u32 {
        self.open.as_ref().map_or(0, Builder::open_record_bytes)
    }

    /// Overwrites a piece that lies, with just this extent, in the record being filled: within one
    /// record the superseded bytes need not be logged at all (the paper's compaction).
    pub(crate) fn overwrite(&mut self, addr: Addr, sector: Sector, bytes: &[u8], crc: u32) -> bool {
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
        let replacement = Entry::Data {
            sector,
            sectors: (bytes.len() as u64 / SECTOR_BYTES) as u8,
            crc,
        };
        let same_extent = matches!(entry, Entry::Data { sector: old, .. } if *old == sector)
            && entry.payload_sectors() == replacement.payload_sectors();
        if !same_extent {
            return false;
        }
        *entry = replacement;
        self.fill(place, bytes);
        self.group_begun = true;
        true
    }

    /// Composes the record being filled, if there is one, so that it can be written.
    pub(crate) fn close_record(&mut self) {
        let Some(open) = &mut self.open else { return };
        let closing = Closing {
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

    /// Every record up to this one is durable.
    pub(crate) fn stable(&self) -> RecordSeq {
        self.flight.stable()
    }

    /// The record a segment begins with; for the next segment, the next record.
    pub(crate) fn first_record(&self, segment: SegmentSeq) -> RecordSeq {
        let known = self.firsts.get(segment.since(self.tail) as usize);
        known.copied().unwrap_or(self.next_record)
    }

    /// The oldest segment that is still in memory or not known durable.
    pub(crate) fn destage_limit(&self) -> SegmentSeq {
        let in_memory = self.flight.oldest();
        in_memory.map_or(self.stable_segment, |oldest| {
            oldest.min(self.stable_segment)
        })
    }

    /// Segments no record lies in.
    pub(crate) fn free_segments(&self) -> u64 {
        self.ring.segment_count - self.next_segment.since(self.tail)
    }

    /// Segments whose records are not all known durable.
    pub(crate) fn unstable_segments(&self) -> u64 {
        self.next_segment.since(self.stable_segment)
    }

    /// Gives the segments before `tail` back to the ring.
    pub(crate) fn set_tail(&mut self, tail: SegmentSeq) {
        assert!(
            tail <= self.stable_segment,
            "the tail would pass what is not durable"
        );
        let freed = tail.since(self.tail) as usize;
        self.firsts.drain(..freed);
        self.tail = tail;
    }

    /// The bytes at `addr`, if their segment is still in memory.
    pub(crate) fn in_ram(&self, addr: Addr, sectors: u64) -> Option<&[u8]> {
        let segment = self.ring.segment_of(addr, self.flight.oldest()?);
        let ram = self.flight.segment(segment)?;
        let offset = self.ring.offset_of(addr);
        let bytes = ram.bytes(offset..offset + (sectors * SECTOR_BYTES) as u32);
        Some(bytes.expect("the map names only data that was appended in one piece"))
    }

    /// Bytes of memory that segments take.
    pub(crate) fn ram_bytes(&self) -> u64 {
        self.flight.ram_bytes(self.ring.shape())
    }

    pub(crate) fn pin(&mut self, slots: Range<u64>) {
        for slot in slots {
            self.pins[slot as usize] += 1;
        }
    }

    /// Says whether a slot lost its last reader, and may be what somebody waits for.
    pub(crate) fn unpin(&mut self, slots: Range<u64>) -> bool {
        let mut free = false;
        for slot in slots {
            self.pins[slot as usize] -= 1;
            free |= self.pins[slot as usize] == 0;
        }
        free
    }
}

impl Composer for State {
    fn flight(&self) -> &Flight {
        &self.flight
    }

    fn flight_mut(&mut self) -> &mut Flight {
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

    /// No more than half of what memory may hold, so that there is room to go on meanwhile.
    fn wants_flush(&self) -> bool {
        self.unstable_segments() > FLUSH_AFTER_SEGMENTS.min(self.flight.room_max() as u64 / 2)
    }

    fn set_stable(&mut self, covered: RecordSeq) {
        self.flight.set_stable(covered);
        let open = self.open.as_ref().map(Builder::seq);
        while self.stable_segment < self.next_segment && Some(self.stable_segment) != open {
            let next = self.stable_segment.next();
            let next_first = self.first_record(next);
            if next_first > self.flight.stable().next() {
                break;
            }
            self.stable_segment = next;
        }
    }

    fn take_joining(&mut self, job: &Job, most: usize) -> Option<(u64, Job)> {
        self.take_behind(job, most)
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
