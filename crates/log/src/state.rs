//! What is known of the log: the ring, the open segment, what is in flight and what is durable.
//!
//! Plain data and no waiting: `write.rs` does what this decides. Appending is synchronous, so a
//! write of many pieces is composed in one go and nothing comes between its pieces.
//!
//! Invariants:
//! - `tail <= stable_segment <= next_segment`, and `next_segment - tail <= segment_count`.
//! - A record's bytes change only while it is the open one; closed records are only ever written.
//! - Space for a segment's summary is kept free from its first record on.
//! - `stable` only ever names the last record of a whole write (a *group*).

pub(crate) mod copies;
mod open;
pub(crate) mod place;
mod room;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use forebay_device::BufPool;
use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, Sector, SegmentSeq, round_up};

use crate::format::{
    Entry, HEADER_BYTES, RECORD_ENTRY_BYTES_MAX, RangeKind, Record, SUMMARY_RECORD_BYTES,
    SummaryRecord, VolumeId, summary_len,
};
use crate::ram::{Job, RamSegment};
use crate::ring::{Addr, RingGeometry};
use open::{Open, OpenRecord};
use place::Placement;

/// Segments that only the engine's own records may use, so that it is never stuck by a full ring.
pub const SEGMENTS_RESERVED: u64 = 2;
/// How many segments may lie between the first record that is not known durable and the head.
/// Recovery looks no further than this past the end of the chain.
pub const UNSTABLE_SEGMENTS_MAX: u64 = 64;
/// Memory for segments that are not known durable, in bytes; at least three segments.
const RAM_BYTES: u64 = 16 << 20;
/// The most segments that may be written before they are flushed unasked.
const FLUSH_AFTER_SEGMENTS: u64 = 8;

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
    pub(crate) stable: RecordSeq,
    stable_segment: SegmentSeq,
    /// First record of each segment from the tail on.
    firsts: VecDeque<RecordSeq>,
    open: Option<Open>,
    /// Where the record goes that is opened next, if not right behind the last.
    placement: Option<Placement>,
    /// Something was appended that no [`State::end_group`] has ended yet.
    group_begun: bool,
    /// Records past `stable` whose write goes on in the next.
    continuing: VecDeque<RecordSeq>,
    ram: VecDeque<RamSegment>,
    ram_max: usize,
    memory: BufPool,
    /// The last record handed to the device.
    taken: RecordSeq,
    in_flight: BTreeMap<u64, RecordSeq>,
    next_job: u64,
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
        let segment = u64::from(ring.segment_bytes);
        State {
            ring,
            volume,
            epoch: resume.epoch,
            tail: resume.tail,
            next_segment: resume.next_segment,
            next_record: resume.next_record,
            stable: resume.next_record.prev(),
            stable_segment: resume.next_segment,
            firsts: resume.firsts,
            open: None,
            placement: None,
            group_begun: false,
            continuing: VecDeque::new(),
            ram: VecDeque::new(),
            ram_max: (RAM_BYTES / segment).clamp(3, 128) as usize,
            memory: BufPool::in_huge_pages(ring.segment_bytes as usize),
            taken: resume.next_record.prev(),
            in_flight: BTreeMap::new(),
            next_job: 0,
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
        let ram = self.ram.back_mut().expect("the open segment is in memory");
        ram.unfrozen(place..place + bytes.len() as u32)
            .copy_from_slice(bytes);
        self.ring.addr(ram.seq, place)
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
        let record = open.record.as_mut().expect("made room");
        let place = record.end;
        record.end += len;
        record.entry_bytes += entry.encoded_len();
        record.entries.push(entry);
        record.places.push(if len == 0 { 0 } else { place });
        self.group_begun = true;
        place
    }

    fn make_room(&mut self, entry_bytes: usize, len: u32) {
        let (block, segment_bytes) = (self.ring.block, self.ring.segment_bytes);
        self.place_next();
        if let Some(open) = &self.open {
            let fits = |end: u32, body: usize| {
                let end = round_up(u64::from(end + len), block.into());
                end + summary_len(body) as u64 <= u64::from(segment_bytes)
            };
            if let Some(record) = &open.record {
                let body = open.body + SUMMARY_RECORD_BYTES + record.entry_bytes + entry_bytes;
                let header_has_room = record.entry_bytes + entry_bytes <= RECORD_ENTRY_BYTES_MAX;
                if header_has_room && fits(record.end, body) {
                    return;
                }
                self.close_record();
            }
            let open = self.open.as_ref().expect("still open");
            let body = open.body + SUMMARY_RECORD_BYTES + entry_bytes;
            if !fits(open.at + HEADER_BYTES as u32, body) {
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
        self.ram.push_back(RamSegment::new(seq, self.memory.take()));
        let first = self.next_record;
        self.open = Some(Open {
            seq,
            first,
            records: Vec::new(),
            body: 0,
            at: 0,
            record: None,
        });
    }

    fn open_record(&mut self) {
        let seq = self.next_record;
        self.next_record = seq.next();
        let open = self.open.as_mut().expect("a segment is open");
        let (offset, end) = (open.at, open.at + HEADER_BYTES as u32);
        let (entries, places) = (Vec::new(), Vec::new());
        open.record = Some(OpenRecord {
            seq,
            offset,
            entries,
            places,
            entry_bytes: 0,
            end,
        });
    }

    /// Ends a write: what was appended since the last one ended is applied together or not at all.
    pub(crate) fn end_group(&mut self) {
        self.group_begun = false;
    }

    /// The record being filled, if one is.
    pub(crate) fn open_record_seq(&self) -> Option<RecordSeq> {
        Some(self.open.as_ref()?.record.as_ref()?.seq)
    }

    /// Bytes in the record being filled.
    pub(crate) fn open_record_bytes(&self) -> u32 {
        let record = self.open.as_ref().and_then(|open| open.record.as_ref());
        record.map_or(0, |record| record.end - record.offset)
    }

    /// Overwrites a piece that lies, with just this extent, in the record being filled: within one
    /// record the superseded bytes need not be logged at all (the paper's compaction).
    pub(crate) fn overwrite(&mut self, addr: Addr, sector: Sector, bytes: &[u8], crc: u32) -> bool {
        let Some(open) = &mut self.open else {
            return false;
        };
        let Some(record) = &mut open.record else {
            return false;
        };
        let start = self.ring.addr(open.seq, record.offset);
        if addr < start || addr >= self.ring.addr(open.seq, record.end) {
            return false;
        }
        let place = self.ring.offset_of(addr);
        // The last entries are the likeliest.
        let Some(n) = record.places.iter().rposition(|at| *at == place) else {
            return false;
        };
        let replacement = Entry::Data {
            sector,
            sectors: (bytes.len() as u64 / SECTOR_BYTES) as u8,
            crc,
        };
        let same_extent = matches!(record.entries[n], Entry::Data { sector: old, .. } if old == sector)
            && record.entries[n].payload_sectors() == replacement.payload_sectors();
        if !same_extent {
            return false;
        }
        record.entries[n] = replacement;
        let ram = self.ram.back_mut().expect("the open segment is in memory");
        ram.unfrozen(place..place + bytes.len() as u32)
            .copy_from_slice(bytes);
        self.group_begun = true;
        true
    }

    /// Composes the record being filled, if there is one, so that it can be written.
    pub(crate) fn close_record(&mut self) {
        let Some(open) = &mut self.open else { return };
        let Some(record) = open.record.take() else {
            return;
        };
        let end = round_up(record.end.into(), self.ring.block.into()) as u32;
        let payload_bytes = end - record.offset - HEADER_BYTES as u32;
        let header = Record {
            volume: self.volume,
            epoch: self.epoch,
            segment: open.seq,
            offset: record.offset,
            seq: record.seq,
            stable: self.stable,
            payload_bytes,
            continues: self.group_begun,
            entries: record.entries,
        };
        let ram = self.ram.back_mut().expect("the open segment is in memory");
        ram.unfrozen(record.offset..record.offset + HEADER_BYTES as u32)
            .copy_from_slice(&header.encode());
        ram.unfrozen(record.end..end).fill(0);
        ram.close(record.offset..end, record.seq, record.seq);
        if self.group_begun {
            self.continuing.push_back(record.seq);
        }
        open.at = end;
        open.body += SUMMARY_RECORD_BYTES + record.entry_bytes;
        open.records.push(SummaryRecord {
            offset: record.offset,
            payload_bytes,
            continues: self.group_begun,
            entries: header.entries,
        });
    }

    /// The next write for the device, oldest first.
    pub(crate) fn take_job(&mut self) -> Option<(u64, Job)> {
        let ram = self.ram.iter_mut().find(|ram| ram.has_closed())?;
        let job = ram.take_job().expect("it has something closed");
        let id = self.next_job;
        self.next_job += 1;
        self.in_flight.insert(id, job.first);
        self.taken = self.taken.max(job.last);
        Some((id, job))
    }

    /// The number that the next job gets.
    pub(crate) fn next_job(&self) -> u64 {
        self.next_job
    }

    pub(crate) fn jobs_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// True if something composed waits to be written.
    pub(crate) fn has_jobs(&self) -> bool {
        self.ram.iter().any(RamSegment::has_closed)
    }

    /// The device has done a job.
    pub(crate) fn job_done(&mut self, id: u64, segment: SegmentSeq) {
        self.in_flight.remove(&id);
        if let Some(ram) = self.ram.iter_mut().find(|ram| ram.seq == segment) {
            ram.in_flight -= 1;
        }
        self.release_memory();
    }

    /// Lets go of the segments that are durable. Not of those that are only written: should the
    /// device's flush fail, what it was for may be gone there, and memory has the only copy.
    fn release_memory(&mut self) {
        let durable = |ram: &RamSegment| ram.is_done() && ram.seq < self.stable_segment;
        while self.ram.front().is_some_and(durable) {
            self.ram.pop_front();
        }
    }

    /// Every record up to this one is on the device, though perhaps not durable.
    pub(crate) fn written(&self) -> RecordSeq {
        self.in_flight
            .values()
            .min()
            .map_or(self.taken, |first| first.prev())
    }

    /// The newest record that a recovery finds, with all before it and no part of a write, if the device
    /// loses nothing.
    pub(crate) fn handed_over(&self) -> RecordSeq {
        self.group_end(self.written())
    }

    /// The last record up to `limit` that ends a whole write.
    pub(crate) fn group_end(&self, limit: RecordSeq) -> RecordSeq {
        let mut end = limit;
        for continuing in self.continuing.iter().rev() {
            if *continuing == end {
                end = end.prev();
            }
        }
        end.max(self.stable)
    }

    /// The device's flush has made every record up to `covered` durable.
    pub(crate) fn set_stable(&mut self, covered: RecordSeq) {
        self.stable = self.group_end(covered);
        while self
            .continuing
            .front()
            .is_some_and(|record| *record <= self.stable)
        {
            self.continuing.pop_front();
        }
        let open = self.open.as_ref().map(|open| open.seq);
        while self.stable_segment < self.next_segment && Some(self.stable_segment) != open {
            let next = self.stable_segment.next();
            let next_first = self.first_record(next);
            if next_first > self.stable.next() {
                break;
            }
            self.stable_segment = next;
        }
        self.release_memory();
    }

    /// True if so much is written and not known durable that it should be flushed unasked: no more than
    /// half of what memory may hold, so that there is room to go on meanwhile.
    pub(crate) fn wants_flush(&self) -> bool {
        self.unstable_segments() > FLUSH_AFTER_SEGMENTS.min(self.ram_max as u64 / 2)
    }

    /// The record a segment begins with; for the next segment, the next record.
    pub(crate) fn first_record(&self, segment: SegmentSeq) -> RecordSeq {
        let known = self.firsts.get(segment.since(self.tail) as usize);
        known.copied().unwrap_or(self.next_record)
    }

    /// The oldest segment that is still in memory or not known durable.
    pub(crate) fn destage_limit(&self) -> SegmentSeq {
        self.ram
            .front()
            .map_or(self.stable_segment, |ram| ram.seq.min(self.stable_segment))
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
        let front = self.ram.front()?.seq;
        let segment = self.ring.segment_of(addr, front);
        let ram = self.ram.get(segment.since(front) as usize)?;
        let offset = self.ring.offset_of(addr);
        Some(ram.bytes(offset..offset + (sectors * SECTOR_BYTES) as u32))
    }

    /// Bytes of memory that segments take.
    pub(crate) fn ram_bytes(&self) -> u64 {
        self.ram.len() as u64 * u64::from(self.ring.segment_bytes)
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

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
