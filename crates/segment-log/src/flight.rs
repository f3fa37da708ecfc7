//! Data on its way to the device: segments in memory, writes in flight, and the newest durable record.
//!
//! Invariants:
//! - Jobs are taken in the order of their first records.
//! - A record is treated as written only if it and all earlier records are written. After a failed write, no record
//!   from that write on is treated as written until the write is repeated, which a log that latches its failures never
//!   does.
//! - `stable` is always the last record of a whole write (a *group*), and never decreases.
//! - In a log that writes again ([`InFlightSegments::keep_unstable`]), every stretch of a released segment is durable, including
//!   its summary, if any. So no data of a segment that is missing in memory ever has to be written again.

use std::collections::{BTreeMap, VecDeque};

use forebay_device::BufPool;
use forebay_units::{RecordSeq, SegmentSeq};

use crate::ram::{RamSegment, WriteJob};
use crate::shape::SegmentShape;
use crate::unstable::{JobEnd, UnstableWrites};

/// Memory for segments that are not known to be durable, in bytes; at least three segments.
const RAM_BYTES: u64 = 16 << 20;

/// Segments and writes on their way to the device.
pub struct InFlightSegments {
    /// Segments in memory, in the order of their numbers.
    ram: VecDeque<RamSegment>,
    /// The most segments in memory for a single stream, and for the present number of streams.
    ram_least: usize,
    ram_max: usize,
    memory: BufPool,
    in_flight: BTreeMap<u64, RecordSeq>,
    next_job: u64,
    /// The newest composed record.
    closed: RecordSeq,
    stable: RecordSeq,
    /// Records past `stable` whose write continues in the next record.
    continuing: VecDeque<RecordSeq>,
    /// Stretches to write again if a flush fails; `None` in a log that latches its failures.
    unstable: Option<UnstableWrites>,
}

/// A flush that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushTicket {
    number: u64,
    /// Every record up to this one is durable if the flush succeeds.
    pub(crate) covered: RecordSeq,
}

impl InFlightSegments {
    /// Creates the state without any data under way; every record up to `stable` is durable. Memory may hold `more`
    /// segments than for a single stream.
    pub fn new(shape: SegmentShape, stable: RecordSeq, more: usize) -> InFlightSegments {
        let segment = u64::from(shape.segment_bytes);
        let ram_least = (RAM_BYTES / segment).clamp(3, 128) as usize;
        InFlightSegments {
            ram: VecDeque::new(),
            ram_least,
            ram_max: ram_least + more,
            memory: BufPool::new(shape.segment_bytes as usize).in_huge_pages(),
            in_flight: BTreeMap::new(),
            next_job: 0,
            closed: stable,
            stable,
            continuing: VecDeque::new(),
            unstable: None,
        }
    }

    /// Keeps every stretch in memory until it is known to be durable, so that it can be written again.
    pub(crate) fn keep_unstable(&mut self) {
        debug_assert!(self.in_flight.is_empty());
        self.unstable.get_or_insert_default();
    }

    /// Sets the number of segments that memory may hold in addition to those for a single stream. Segments already in
    /// memory stay.
    pub fn set_more(&mut self, more: usize) {
        self.ram_max = self.ram_least + more;
    }

    /// Returns the newest record up to which all records are durable.
    #[inline]
    pub fn stable(&self) -> RecordSeq {
        self.stable
    }

    /// Allocates memory for a segment. Its number must be higher than those before.
    pub fn begin_segment(&mut self, seq: SegmentSeq) {
        self.ram.push_back(RamSegment::new(seq, self.memory.take()));
    }

    /// Returns the bytes of a segment, if it is in memory.
    #[inline]
    pub fn segment(&self, seq: SegmentSeq) -> Option<&RamSegment> {
        self.ram.get(self.position(seq)?)
    }

    /// Returns the bytes of a segment that is being filled.
    ///
    /// # Panics
    /// If the segment is not in memory.
    #[inline]
    pub fn segment_mut(&mut self, seq: SegmentSeq) -> &mut RamSegment {
        let n = self.position(seq).expect("the open segment is in memory");
        &mut self.ram[n]
    }

    #[inline]
    fn position(&self, seq: SegmentSeq) -> Option<usize> {
        // Segments usually have consecutive numbers, and most callers need the newest segment.
        let newest = self.ram.len().checked_sub(1)?;
        if self.ram[newest].seq() == seq {
            return Some(newest);
        }
        self.ram.binary_search_by_key(&seq, RamSegment::seq).ok()
    }

    /// Returns the oldest segment in memory.
    pub fn oldest(&self) -> Option<SegmentSeq> {
        self.ram.front().map(RamSegment::seq)
    }

    /// Returns the segments in memory, oldest first.
    pub fn segments(&self) -> impl Iterator<Item = &RamSegment> {
        self.ram.iter()
    }

    /// Returns the number of further segments that memory may hold.
    #[inline]
    pub fn room(&self) -> usize {
        self.ram_max.saturating_sub(self.ram.len())
    }

    /// Returns the most segments that memory may hold.
    pub fn room_max(&self) -> usize {
        self.ram_max
    }

    /// Records that the next record is composed. `continues` is true if its write continues in the following record.
    pub fn record_closed(&mut self, record: RecordSeq, continues: bool) {
        debug_assert_eq!(record, self.closed.next());
        self.closed = record;
        if continues {
            self.continuing.push_back(record);
        }
    }

    /// Takes the next job for the device: among composed stretches and stretches to write again, the one that begins
    /// with the oldest record.
    pub fn take_job(&mut self) -> Option<(u64, WriteJob)> {
        if let Some(lost) = self.take_lost() {
            return Some(lost);
        }
        let waiting = |ram: &&mut RamSegment| ram.has_closed();
        let first = |ram: &&mut RamSegment| ram.next_record();
        let ram = self.ram.iter_mut().filter(waiting).min_by_key(first)?;
        let job = ram.take_job().expect("a record is closed");
        let id = self.next_job;
        self.next_job += 1;
        self.in_flight.insert(id, job.first);
        if let Some(unstable) = &mut self.unstable {
            ram.add_unstable();
            unstable.add(id, job.clone());
        }
        Some((id, job))
    }

    /// Takes the oldest stretch to write again, unless an older record waits for its first write.
    fn take_lost(&mut self) -> Option<(u64, WriteJob)> {
        let lost = self.unstable.as_ref()?.first_lost()?;
        let waiting = self.next_waiting().and_then(RamSegment::next_record);
        if waiting.is_some_and(|waiting| waiting < lost) {
            return None;
        }
        let (id, job) = self.unstable.as_mut()?.take_lost()?;
        self.segment_mut(job.segment).write_again();
        self.in_flight.insert(id, job.first);
        Some((id, job))
    }

    /// Returns true if a stretch waits to be written again.
    pub(crate) fn has_lost(&self) -> bool {
        let unstable = self.unstable.as_ref();
        unstable.is_some_and(|unstable| unstable.first_lost().is_some())
    }

    /// Returns the number of stretches that may have to be written again, including those in flight.
    pub(crate) fn unstable(&self) -> Option<usize> {
        self.unstable.as_ref().map(UnstableWrites::len)
    }

    /// Returns the segment of the next job.
    pub fn next_waiting(&self) -> Option<&RamSegment> {
        let waiting = self.ram.iter().filter(|ram| ram.has_closed());
        waiting.min_by_key(|ram| ram.next_record())
    }

    /// Returns the number of the next job.
    pub fn next_job(&self) -> u64 {
        self.next_job
    }

    /// Returns the number of writes in flight.
    #[inline]
    pub fn jobs_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the number of composed stretches that wait to be taken.
    pub fn jobs_waiting(&self) -> usize {
        self.ram.iter().map(RamSegment::closed).sum()
    }

    /// Returns true if a composed stretch waits to be written, or a stretch waits to be written again.
    pub fn has_jobs(&self) -> bool {
        self.ram.iter().any(RamSegment::has_closed) || self.has_lost()
    }

    /// Returns true if no write is in flight or waits, and no stretch may have to be written again.
    pub fn is_at_rest(&self) -> bool {
        self.in_flight.is_empty() && !self.has_jobs() && self.unstable().unwrap_or(0) == 0
    }

    /// Records that the device has completed a job.
    pub fn job_done(&mut self, id: u64, segment: SegmentSeq) {
        self.job_ended(id, segment, JobEnd::Written);
    }

    /// Records that the device has completed a job. `end` is the state of the data.
    pub(crate) fn job_ended(&mut self, id: u64, segment: SegmentSeq, end: JobEnd) {
        self.in_flight.remove(&id);
        let unstable = self.unstable.as_mut();
        let durable = unstable.is_some_and(|unstable| unstable.end(id, end));
        if let Some(n) = self.position(segment) {
            self.ram[n].job_done();
            if durable {
                self.ram[n].remove_unstable();
            }
        }
        self.release_memory();
    }

    /// Begins a flush of the device. Flushes must not overlap.
    pub(crate) fn begin_flush(&mut self) -> FlushTicket {
        FlushTicket {
            number: self
                .unstable
                .as_mut()
                .map_or(0, UnstableWrites::begin_flush),
            covered: self.written(),
        }
    }

    /// Records that the flush has succeeded. Afterwards, the caller must set `stable` to the record that the flush
    /// covered.
    pub(crate) fn flushed(&mut self, mark: FlushTicket) {
        let Some(unstable) = &mut self.unstable else {
            return;
        };
        for segment in unstable.flushed(mark.number) {
            self.segment_mut(segment).remove_unstable();
        }
    }

    /// Records that a flush has failed: all data that is not known to be durable is treated as unwritten until it is
    /// written again.
    pub(crate) fn flush_failed(&mut self) {
        if let Some(unstable) = &mut self.unstable {
            unstable.flush_failed();
        }
    }

    /// Releases the segments that are durable. Must be called when a segment is sealed: if all of it was durable
    /// before, no later write or flush triggers its release.
    pub fn release_memory(&mut self) {
        let stable = self.stable;
        while self.ram.front().is_some_and(|ram| ram.is_durable(stable)) {
            self.ram.pop_front();
        }
        // A durable segment may follow a segment that is filled slowly.
        if self.ram.iter().skip(1).any(|ram| ram.is_durable(stable)) {
            self.ram.retain(|ram| !ram.is_durable(stable));
        }
    }

    /// Returns the newest record up to which all records are on the device, though perhaps not durable. Decreases when
    /// a flush fails in a log that writes again.
    pub fn written(&self) -> RecordSeq {
        let in_flight = self.in_flight.values().min().copied();
        let waiting = self.ram.iter().filter_map(RamSegment::first_waiting).min();
        let lost = self.unstable.as_ref().and_then(UnstableWrites::first_lost);
        let first_missing = in_flight.into_iter().chain(waiting).chain(lost).min();
        first_missing.map_or(self.closed, RecordSeq::prev)
    }

    /// Returns the newest record that recovery would find if the device lost nothing, with all earlier records and
    /// without a part of a write.
    pub fn handed_over(&self) -> RecordSeq {
        self.group_end(self.written())
    }

    /// Returns the last record up to `limit` that ends a whole write.
    pub fn group_end(&self, limit: RecordSeq) -> RecordSeq {
        let mut end = limit;
        for continuing in self.continuing.iter().rev() {
            if *continuing == end {
                end = end.prev();
            }
        }
        end.max(self.stable)
    }

    /// Records that a flush of the device has made every record up to `covered` durable.
    pub fn set_stable(&mut self, covered: RecordSeq) {
        self.stable = self.group_end(covered);
        while self
            .continuing
            .front()
            .is_some_and(|record| *record <= self.stable)
        {
            self.continuing.pop_front();
        }
        self.release_memory();
    }

    /// Returns the memory of segments, in bytes.
    pub fn ram_bytes(&self, shape: SegmentShape) -> u64 {
        self.ram.len() as u64 * u64::from(shape.segment_bytes)
    }
}
