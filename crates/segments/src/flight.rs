//! What is on its way to the device: segments in memory, writes in flight, and how far all is durable.
//!
//! Invariants:
//! - Jobs are taken in the order of their first records.
//! - A record counts as written only when it and all before it are; after a failed write none from that on
//!   does until the write is done again, which a log that latches its failures never does.
//! - `stable` only ever names the last record of a whole write (a *group*), and never goes back.
//! - In a log that writes again ([`Flight::keep_unstable`]), every stretch of a released segment is durable, its
//!   summary too if it has one; so nothing of a segment that is missing in memory ever has to be written again.

use std::collections::{BTreeMap, VecDeque};

use forebay_device::BufPool;
use forebay_units::{RecordSeq, SegmentSeq};

use crate::ram::{Job, RamSegment};
use crate::shape::Shape;
use crate::unstable::{JobEnd, Unstable};

/// Memory for segments that are not known durable, in bytes; at least three segments.
const RAM_BYTES: u64 = 16 << 20;

/// What is on its way to the device.
pub struct Flight {
    /// Segments in memory, in the order of their numbers.
    ram: VecDeque<RamSegment>,
    /// Segments for a single stream, and for those that are in use.
    ram_least: usize,
    ram_max: usize,
    memory: BufPool,
    in_flight: BTreeMap<u64, RecordSeq>,
    next_job: u64,
    /// The newest record that is composed.
    closed: RecordSeq,
    stable: RecordSeq,
    /// Records past `stable` whose write goes on in the next.
    continuing: VecDeque<RecordSeq>,
    /// Stretches to write again if a flush fails; `None` in a log that latches its failures.
    unstable: Option<Unstable>,
}

/// A flush that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushMark {
    number: u64,
    /// Every record up to this one is durable if the flush succeeds.
    pub(crate) covered: RecordSeq,
}

impl Flight {
    /// Nothing under way; every record up to `stable` is durable. Memory may hold `more` segments than it would
    /// for a single stream.
    pub fn new(shape: Shape, stable: RecordSeq, more: usize) -> Flight {
        let segment = u64::from(shape.segment_bytes);
        let ram_least = (RAM_BYTES / segment).clamp(3, 128) as usize;
        Flight {
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

    /// Keeps every stretch in memory until it is known durable, so that it can be written again.
    pub(crate) fn keep_unstable(&mut self) {
        debug_assert!(self.in_flight.is_empty());
        self.unstable.get_or_insert_default();
    }

    /// Memory may hold so many segments more than for a single stream from now on. What it holds already stays.
    pub fn set_more(&mut self, more: usize) {
        self.ram_max = self.ram_least + more;
    }

    /// Every record up to this one is durable.
    #[inline]
    pub fn stable(&self) -> RecordSeq {
        self.stable
    }

    /// Takes memory for a segment whose number is higher than those before.
    pub fn begin_segment(&mut self, seq: SegmentSeq) {
        self.ram.push_back(RamSegment::new(seq, self.memory.take()));
    }

    /// The bytes of a segment, if it is in memory.
    #[inline]
    pub fn segment(&self, seq: SegmentSeq) -> Option<&RamSegment> {
        self.ram.get(self.position(seq)?)
    }

    /// The bytes of a segment that is being filled.
    ///
    /// # Panics
    /// If it is not in memory.
    #[inline]
    pub fn segment_mut(&mut self, seq: SegmentSeq) -> &mut RamSegment {
        let n = self
            .position(seq)
            .expect("what is being filled is in memory");
        &mut self.ram[n]
    }

    #[inline]
    fn position(&self, seq: SegmentSeq) -> Option<usize> {
        // Mostly they are numbered one after the other, and the newest is asked for.
        let newest = self.ram.len().checked_sub(1)?;
        if self.ram[newest].seq() == seq {
            return Some(newest);
        }
        self.ram.binary_search_by_key(&seq, RamSegment::seq).ok()
    }

    /// The oldest segment in memory.
    pub fn oldest(&self) -> Option<SegmentSeq> {
        self.ram.front().map(RamSegment::seq)
    }

    /// Segments in memory, oldest first.
    pub fn segments(&self) -> impl Iterator<Item = &RamSegment> {
        self.ram.iter()
    }

    /// How many segments memory may yet hold.
    #[inline]
    pub fn room(&self) -> usize {
        self.ram_max.saturating_sub(self.ram.len())
    }

    /// The most segments that memory may hold.
    pub fn room_max(&self) -> usize {
        self.ram_max
    }

    /// A record is composed: the one after the newest. `continues` if its write goes on in the next.
    pub fn record_closed(&mut self, record: RecordSeq, continues: bool) {
        debug_assert_eq!(record, self.closed.next());
        self.closed = record;
        if continues {
            self.continuing.push_back(record);
        }
    }

    /// The next write for the device: of what is composed and of what is to be written again, what begins with the
    /// oldest record.
    pub fn take_job(&mut self) -> Option<(u64, Job)> {
        if let Some(lost) = self.take_lost() {
            return Some(lost);
        }
        let waiting = |ram: &&mut RamSegment| ram.has_closed();
        let first = |ram: &&mut RamSegment| ram.next_record();
        let ram = self.ram.iter_mut().filter(waiting).min_by_key(first)?;
        let job = ram.take_job().expect("it has something closed");
        let id = self.next_job;
        self.next_job += 1;
        self.in_flight.insert(id, job.first);
        if let Some(unstable) = &mut self.unstable {
            ram.add_unstable();
            unstable.add(id, job.clone());
        }
        Some((id, job))
    }

    /// Takes the oldest stretch that is to be written again, unless an older record waits for its first write.
    fn take_lost(&mut self) -> Option<(u64, Job)> {
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

    /// True if a stretch waits to be written again.
    pub(crate) fn has_lost(&self) -> bool {
        let unstable = self.unstable.as_ref();
        unstable.is_some_and(|unstable| unstable.first_lost().is_some())
    }

    /// Number of stretches that may have to be written again, those in flight included.
    pub(crate) fn unstable(&self) -> Option<usize> {
        self.unstable.as_ref().map(Unstable::len)
    }

    /// The segment that the next job is of.
    pub fn next_waiting(&self) -> Option<&RamSegment> {
        let waiting = self.ram.iter().filter(|ram| ram.has_closed());
        waiting.min_by_key(|ram| ram.next_record())
    }

    /// The number that the next job gets.
    pub fn next_job(&self) -> u64 {
        self.next_job
    }

    /// Writes that the device has not done.
    #[inline]
    pub fn jobs_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// How many writes wait to be taken.
    pub fn jobs_waiting(&self) -> usize {
        self.ram.iter().map(RamSegment::closed).sum()
    }

    /// True if something composed waits to be written, or to be written again.
    pub fn has_jobs(&self) -> bool {
        self.ram.iter().any(RamSegment::has_closed) || self.has_lost()
    }

    /// True if memory waits for nothing: no write is in flight or waits, and no stretch may have to be written again.
    pub fn is_at_rest(&self) -> bool {
        self.in_flight.is_empty() && !self.has_jobs() && self.unstable().unwrap_or(0) == 0
    }

    /// The device has done a job.
    pub fn job_done(&mut self, id: u64, segment: SegmentSeq) {
        self.job_ended(id, segment, JobEnd::Written);
    }

    /// The device has done a job; `end` tells where the data is.
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
    pub(crate) fn begin_flush(&mut self) -> FlushMark {
        FlushMark {
            number: self.unstable.as_mut().map_or(0, Unstable::begin_flush),
            covered: self.written(),
        }
    }

    /// The flush has succeeded. The caller must set `stable` to what the flush covered afterwards.
    pub(crate) fn flushed(&mut self, mark: FlushMark) {
        let Some(unstable) = &mut self.unstable else {
            return;
        };
        for segment in unstable.flushed(mark.number) {
            self.segment_mut(segment).remove_unstable();
        }
    }

    /// A flush has failed: everything that is not known durable counts as unwritten, until it is written again.
    pub(crate) fn flush_failed(&mut self) {
        if let Some(unstable) = &mut self.unstable {
            unstable.flush_failed();
        }
    }

    /// Lets go of the segments that are durable. To be called when a segment was ended: if all of it was durable before, no
    /// write that ends and no flush tells of it any more.
    pub fn release_memory(&mut self) {
        let stable = self.stable;
        while self.ram.front().is_some_and(|ram| ram.is_durable(stable)) {
            self.ram.pop_front();
        }
        // Behind one that is filled slowly.
        if self.ram.iter().skip(1).any(|ram| ram.is_durable(stable)) {
            self.ram.retain(|ram| !ram.is_durable(stable));
        }
    }

    /// Every record up to this one is on the device, though perhaps not durable. Goes back when a flush fails in
    /// a log that writes again.
    pub fn written(&self) -> RecordSeq {
        let in_flight = self.in_flight.values().min().copied();
        let waiting = self.ram.iter().filter_map(RamSegment::first_waiting).min();
        let lost = self.unstable.as_ref().and_then(Unstable::first_lost);
        let first_missing = in_flight.into_iter().chain(waiting).chain(lost).min();
        first_missing.map_or(self.closed, |first| first.prev())
    }

    /// The newest record that a recovery finds, with all before it and no part of a write, if the device
    /// loses nothing.
    pub fn handed_over(&self) -> RecordSeq {
        self.group_end(self.written())
    }

    /// The last record up to `limit` that ends a whole write.
    pub fn group_end(&self, limit: RecordSeq) -> RecordSeq {
        let mut end = limit;
        for continuing in self.continuing.iter().rev() {
            if *continuing == end {
                end = end.prev();
            }
        }
        end.max(self.stable)
    }

    /// The device's flush has made every record up to `covered` durable.
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

    /// Bytes of memory that segments take.
    pub fn ram_bytes(&self, shape: Shape) -> u64 {
        self.ram.len() as u64 * u64::from(shape.segment_bytes)
    }
}
