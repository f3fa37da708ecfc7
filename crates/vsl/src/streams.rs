//! The open segments: several streams of records in one order.
//!
//! This is plain state without waiting. The streams of clients are composed together, in a *round*: their open records
//! get consecutive numbers, and recovery applies all of them or none (each record states that it continues in the
//! next). So the stream of a write does not matter: recovery always finds the state of one moment. The records of the
//! other streams (moved data, checkpoints) are composed individually.
//!
//! Invariants, beside those of [`SegmentBuilder`], [`InFlightSegments`] and [`SegmentTable`]:
//! - No sector is in two open records of a round: a write that overwrites data in the open record of another stream
//!   ends the round first.
//! - A batch is composed without interruption, so no other record comes between its records.
//! - Between two calls from outside, only records of clients' streams are open.

pub(crate) mod bare;
mod composer;
mod counts;
mod gain;
mod memory;
mod shape;

use forebay_placement::WriteClock;
use std::collections::BTreeMap;

use forebay_segment_log::{
    HeaderFields, InFlightSegments, RecordEntry as _, SegmentBuilder, SummaryFields, VolumeId,
};
use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, SegmentSeq};

use crate::changed::ChangedBounds;
use crate::claim::{ClaimFloors, SegmentClaim, SegmentDemand, SegmentGrant};
use crate::format::{
    ENTRY_BYTES_MAX, MetaKind, PART_BYTES, SpaceEntry, SpaceRecordLayout, StreamNumber,
    encode_queue,
};
use crate::geometry::{SegmentLayout, SegmentSlot};
use crate::table::SegmentTable;
pub(crate) use counts::StreamCounts;
use forebay_extent_map::LogPlace;
pub(crate) use shape::StreamShape;

/// Maximum bytes left before a summary: appended data has at most `PART_BYTES`, and needs two more headers. These bytes
/// are filled and not skipped, so that a segment can be a zone that is written in order.
const FILL_BYTES: u32 = PART_BYTES as u32 + (32 << 10);
/// Bytes of a segment that are not counted on for data: two headers that are not full, the last block of a summary, and
/// a fragment that goes to the next segment.
const LEFT_BYTES: u64 = 6 * 4096;
/// Cost of ending a record early in its segment, in bytes: a header, and padding.
const ROUND_BYTES: u64 = 2 * 4096;
/// Maximum number of segments that are written before the device is flushed without a request.
const FLUSH_AFTER_SEGMENTS: usize = 8;

/// A record of moved data may end this number of entries before its header is full: eight fragments of one sector make
/// a block.
const ENDS_WITHIN: usize = 8;

/// A segment that is being filled.
struct FillingSegment {
    builder: SegmentBuilder<SpaceRecordLayout>,
    slot: SegmentSlot,
    /// Sectors of moved data in the segment, and the sum of their write times.
    moved: u64,
    births: u128,
}

impl FillingSegment {
    /// Adds moved data. Returns the average write time of the moved data in this segment.
    fn add_birth(&mut self, sectors: u64, born: WriteClock) -> WriteClock {
        self.moved += sectors;
        self.births += u128::from(born.0) * u128::from(sectors);
        WriteClock((self.births / u128::from(self.moved)) as u64)
    }
}

/// The open segments, and the table of all segments.
pub(crate) struct SegmentStreams {
    pub(crate) layout: SegmentLayout,
    pub(crate) volume: VolumeId,
    pub(crate) epoch: Epoch,
    pub(crate) counts: StreamCounts,
    pub(crate) table: SegmentTable,
    /// Sectors that clients have written.
    pub(crate) clock: WriteClock,
    pub(crate) next_segment: SegmentSeq,
    /// Bytes of nodes that the current checkpoint has yet to write.
    pub(crate) frozen_bytes: u64,
    pub(crate) changed: ChangedBounds,
    /// Memory for the map. Writers wait for a checkpoint when changed nodes take this amount.
    pub(crate) map_bytes: u64,
    /// Sectors that are kept free for batches that preallocated them.
    pub(crate) preallocated: u64,
    /// Number of the next record.
    next_record: RecordSeq,
    open: Vec<Option<FillingSegment>>,
    flight: InFlightSegments,
    /// Slots of the segments in memory.
    slots: BTreeMap<SegmentSeq, SegmentSlot>,
    /// Number of rounds begun. Identifies the open round.
    rounds: u64,
    /// True if clients' data was appended since the last [`SegmentStreams::end_batch`].
    batch_begun: bool,
    /// True if the newest record of clients' streams continues in the next.
    batch_hangs: bool,
}

/// The state from which a volume continues.
pub(crate) struct ResumeState {
    pub(crate) volume: VolumeId,
    pub(crate) epoch: Epoch,
    pub(crate) next_segment: SegmentSeq,
    pub(crate) next_record: RecordSeq,
    pub(crate) clock: WriteClock,
    pub(crate) changed: ChangedBounds,
    pub(crate) map_bytes: u64,
}

impl SegmentStreams {
    pub(crate) fn new(
        layout: SegmentLayout,
        counts: StreamCounts,
        table: SegmentTable,
        resume: ResumeState,
    ) -> SegmentStreams {
        let shape = layout.shape();
        SegmentStreams {
            layout,
            volume: resume.volume,
            epoch: resume.epoch,
            counts,
            table,
            clock: resume.clock,
            next_segment: resume.next_segment,
            frozen_bytes: 0,
            changed: resume.changed,
            map_bytes: resume.map_bytes,
            preallocated: 0,
            next_record: resume.next_record,
            open: (0..StreamNumber::COUNT).map(|_| None).collect(),
            flight: InFlightSegments::new(shape, resume.next_record.prev(), counts.all().into()),
            slots: BTreeMap::new(),
            rounds: 0,
            batch_begun: false,
            batch_hangs: false,
        }
    }

    /// Takes the new layout after a checkpoint that added segments.
    pub(crate) fn grow(&mut self, layout: SegmentLayout, changed: ChangedBounds) {
        self.layout = layout;
        self.changed = changed;
        self.table.grow(layout);
    }

    /// Returns the newest composed record.
    pub(crate) fn last_record(&self) -> RecordSeq {
        self.next_record.prev()
    }

    /// Returns the segments that certainly hold `wanted`, with an allowance in each segment for headers, padding and
    /// data that does not fit at its end.
    fn segments_for(&self, wanted: SegmentDemand, streams: usize) -> usize {
        let room = u64::from(self.layout.segment_bytes) - LEFT_BYTES;
        // Each entry is in a header, and again in the summary if the segment has a summary.
        let entries = wanted.entries * 2 * ENTRY_BYTES_MAX as u64;
        let rounds = match streams {
            1 => 0,
            // Each round ends the open record of every stream before it is full.
            _ => wanted.rounds * streams as u64 * ROUND_BYTES,
        };
        (wanted.bytes + entries + rounds).div_ceil(room) as usize + streams - 1
    }

    /// Returns the segments that `wanted` may open in clients' streams, however it is distributed over them. Trims go
    /// to the first stream.
    pub(crate) fn segments_needed(&self, wanted: SegmentDemand) -> usize {
        let streams = match wanted.bytes {
            0 => 1,
            _ => usize::from(self.counts.user),
        };
        let rounds = if streams == 1 { 0 } else { wanted.rounds };
        let bytes = wanted.bytes + rounds * ROUND_BYTES;
        let fits = |open: &Option<FillingSegment>| {
            let open = open.as_ref();
            open.is_some_and(|open| {
                open.builder
                    .surely_fits(bytes, wanted.entries, ENTRY_BYTES_MAX)
            })
        };
        if self.open[..streams].iter().all(fits) {
            return 0;
        }
        self.segments_for(wanted, streams)
    }

    /// Returns true if `bytes` of data in `entries` entries certainly fit into the open segment of a stream.
    fn fits(&self, stream: StreamNumber, bytes: u64, entries: u64) -> bool {
        let open = self.open[usize::from(stream.0)].as_ref();
        open.is_some_and(|open| open.builder.surely_fits(bytes, entries, ENTRY_BYTES_MAX))
    }

    /// Returns true if memory for `segments` segments is available without waiting for the device.
    pub(crate) fn has_memory(&self, segments: usize) -> bool {
        let crowded = self.flight.room() < segments && self.flight.oldest().is_some();
        // While the device fails, the flight is not at rest, so memory stays bounded.
        let alone = self.flight.is_at_rest();
        segments == 0 || !crowded || alone
    }

    /// Grants a claim to open segments, if the claim leaves its floor on the allocation queue and memory is available.
    /// The caller must use the grant before any other task takes segments.
    pub(crate) fn grant(
        &self,
        floors: &impl ClaimFloors,
        claim: SegmentClaim,
        segments: usize,
    ) -> Option<SegmentGrant> {
        let adds_to_no_checkpoint = matches!(claim, SegmentClaim::Queue | SegmentClaim::Checkpoint);
        let enough = segments == 0 && adds_to_no_checkpoint
            || self.table.queued() >= segments + floors.floor(claim);
        // Numbers suffice for 4 EiB of writes in a volume's life.
        let numbered = self.next_segment.0 + (segments as u64) < self.layout.numbers();
        (enough && numbered && self.has_memory(segments)).then_some(SegmentGrant { segments })
    }

    /// Grants the segments to append `bytes` of data in `entries` entries to a stream. All of this data must fit into
    /// one new segment.
    pub(crate) fn grant_entry(
        &self,
        floors: &impl ClaimFloors,
        claim: SegmentClaim,
        stream: StreamNumber,
        bytes: u64,
        entries: u64,
    ) -> Option<SegmentGrant> {
        let segments = usize::from(!self.fits(stream, bytes, entries));
        self.grant(floors, claim, segments)
    }

    /// Returns true if `place` is in the open record of a client stream other than `stream`.
    pub(crate) fn is_open_elsewhere(&self, place: LogPlace, stream: StreamNumber) -> bool {
        let segment = self.layout.segment_of(place);
        let user = &self.open[..usize::from(self.counts.user)];
        let at = user.iter().position(|open| {
            open.as_ref()
                .is_some_and(|open| open.builder.seq() == segment)
        });
        let Some(n) = at.filter(|n| *n != usize::from(stream.0)) else {
            return false;
        };
        let open = self.open[n].as_ref().expect("found");
        open.builder.has_open_record() && self.layout.offset_of(place) >= open.builder.at()
    }

    /// Appends an entry with its data to a stream. Returns the place of the data.
    ///
    /// # Panics
    /// The append needs more segments than were granted.
    pub(crate) fn append(
        &mut self,
        grant: &mut SegmentGrant,
        stream: StreamNumber,
        entry: SpaceEntry,
        data: &[u8],
    ) -> LogPlace {
        let len = data.len() as u32;
        self.make_room(grant, stream, entry.encoded_len(), data);
        if stream.is_user() {
            self.batch_begun = true;
        }
        let open = self.open[usize::from(stream.0)]
            .as_mut()
            .expect("a segment is open");
        if let SpaceEntry::Moved { sectors, born, .. } = entry {
            let born = open.add_birth(sectors.into(), born);
            self.table.set_born(open.slot, born);
        }
        let offset = open.builder.push(entry, len);
        let ram = self.flight.segment_mut(open.builder.seq());
        ram.unfrozen(offset..offset + len).copy_from_slice(data);
        self.layout.place(open.builder.seq(), offset)
    }

    fn make_room(
        &mut self,
        grant: &mut SegmentGrant,
        stream: StreamNumber,
        entry_bytes: usize,
        data: &[u8],
    ) {
        let n = usize::from(stream.0);
        if let Some(open) = &self.open[n] {
            // Records of moved data end at the end of a block if possible.
            let ends = !stream.is_user() && open.builder.should_end(ENDS_WITHIN * ENTRY_BYTES_MAX);
            if !ends && open.fits_record(&self.layout, entry_bytes, data) {
                return;
            }
            if open.builder.has_open_record() {
                self.compose(stream);
            }
            let open = self.open[n].as_ref().expect("still open");
            if !open.fits_new_record(&self.layout, entry_bytes, data) {
                self.seal(stream, FILL_BYTES);
            }
        }
        if self.open[n].is_none() {
            self.open_segment(grant, stream);
            return;
        }
        self.open_record(stream);
    }

    fn open_segment(&mut self, grant: &mut SegmentGrant, stream: StreamNumber) {
        debug_assert!(
            grant.segments > 0,
            "a segment was opened that was not granted"
        );
        debug_assert!(
            self.counts.has(stream),
            "{stream:?} is not in use, and would stay open"
        );
        grant.segments = grant.segments.saturating_sub(1);
        let seq = self.next_segment;
        self.next_segment = seq.next();
        let slot = self.table.open(stream, seq, self.clock);
        self.flight.begin_segment(seq);
        debug_assert!(
            self.flight.segments().count() <= self.layout.in_memory_max(),
            "recovery relies on this bound"
        );
        self.slots.insert(seq, slot);
        let builder = SegmentBuilder::new(seq, self.layout.shape(), self.bare_records(stream));
        self.open[usize::from(stream.0)] = Some(FillingSegment {
            builder,
            slot,
            moved: 0,
            births: 0,
        });
        self.open_record(stream);
        let clock = self.clock;
        let open = self.open[usize::from(stream.0)].as_mut().expect("opened");
        open.builder.push(SpaceEntry::Opened { stream, clock }, 0);
    }

    fn open_record(&mut self, stream: StreamNumber) {
        if stream.is_user() && !self.has_open_round() {
            self.rounds += 1;
        }
        let open = self.open[usize::from(stream.0)].as_mut();
        open.expect("a segment is open").builder.open_record();
    }

    fn has_open_round(&self) -> bool {
        let user = self.open[..usize::from(self.counts.user)].iter().flatten();
        user.into_iter().any(|open| open.builder.has_open_record())
    }

    /// Ends a batch: recovery applies all data appended for clients since the end of the last batch, or none of it.
    pub(crate) fn end_batch(&mut self) {
        self.batch_begun = false;
    }

    /// Composes the open record of a stream. For a client stream, composes the whole round.
    fn compose(&mut self, stream: StreamNumber) {
        if stream.is_user() {
            self.end_round();
        } else {
            self.compose_inside(stream.0.into());
        }
    }

    /// Composes the open record of an internal stream. No record may come between the records of a batch, so an open
    /// last record of a batch is composed first.
    fn compose_inside(&mut self, n: usize) {
        let open = self.open[n].as_ref();
        if open.is_some_and(|open| open.builder.has_open_record()) {
            if self.batch_hangs {
                self.end_round();
            }
            self.compose_one(n, false);
        }
    }

    /// Composes all open records of clients' streams.
    pub(crate) fn end_round(&mut self) {
        let is_open = |open: &Option<FillingSegment>| {
            let open = open.as_ref();
            open.is_some_and(|open| open.builder.has_open_record())
        };
        let user = usize::from(self.counts.user);
        let streams: Vec<usize> = (0..user).filter(|n| is_open(&self.open[*n])).collect();
        let last = streams.last().copied();
        for n in streams {
            let continues = Some(n) != last || self.batch_begun;
            self.compose_one(n, continues);
            self.batch_hangs = continues;
        }
    }

    fn compose_one(&mut self, n: usize, continues: bool) {
        let closing = HeaderFields {
            volume: self.volume,
            epoch: self.epoch,
            seq: self.next_record,
            stable: self.flight.stable(),
            continues,
        };
        let Some(open) = &mut self.open[n] else {
            return;
        };
        let ram = self.flight.segment_mut(open.builder.seq());
        if open.builder.close_record(ram, &closing) {
            self.next_record = closing.seq.next();
            self.flight.record_closed(closing.seq, continues);
        }
    }

    /// Composes the open records of the internal streams.
    pub(crate) fn end_inside(&mut self) {
        for n in StreamNumber::moved(0).0..=StreamNumber::META.0 {
            self.compose_inside(n.into());
        }
    }

    /// Composes all open records. Returns the newest record.
    pub(crate) fn end_all(&mut self) -> RecordSeq {
        self.end_round();
        self.end_inside();
        self.last_record()
    }

    /// Puts free segments on the allocation queue, if space is available for the record that continues the queue.
    pub(crate) fn extend_queue(&mut self, floors: &impl ClaimFloors, most: usize) {
        let (meta, bytes) = (StreamNumber::META, (most as u64 + 1) * 4);
        let bytes = bytes.next_multiple_of(SECTOR_BYTES);
        let Some(mut grant) = self.grant_entry(floors, SegmentClaim::Queue, meta, bytes, 1) else {
            return;
        };
        let slots = self.table.take_free(most);
        if slots.is_empty() {
            return;
        }
        let numbers: Vec<u32> = slots.iter().map(|slot| slot.0).collect();
        let bytes = encode_queue(&numbers);
        let entry = SpaceEntry::Meta {
            kind: MetaKind::Queue,
            index: 0,
            sectors: (bytes.len() as u64 / SECTOR_BYTES) as u16,
            crc: crc32c::crc32c(&bytes),
        };
        self.append(&mut grant, meta, entry, &bytes);
        // This record must come before all records in these segments.
        self.end_inside();
        self.table.extend(slots);
    }

    /// Ends the open segment of a stream. The rest before its summary is written if it has at most `fill` bytes, and
    /// skipped otherwise.
    fn seal(&mut self, stream: StreamNumber, fill: u32) {
        let n = usize::from(stream.0);
        debug_assert!(
            self.open[n]
                .as_ref()
                .is_some_and(|open| !open.builder.has_open_record())
        );
        let Some(open) = self.open[n].take() else {
            return;
        };
        let end = SummaryFields {
            volume: self.volume,
            epoch: self.epoch,
            stable: self.flight.stable(),
            fill,
        };
        let ram = self.flight.segment_mut(open.builder.seq());
        let left = open.builder.summary_at() - open.builder.at();
        let is_bare = open.builder.summary_at() == self.layout.segment_bytes;
        debug_assert!(is_bare || left <= fill, "{left} bytes are skipped");
        open.builder.seal(ram, &end);
        self.flight.release_memory();
        self.table.close(open.slot, self.clock);
    }

    /// Forgets the slots of segments that are no longer in memory.
    fn forget_slots(&mut self) {
        let Some(oldest) = self.flight.oldest() else {
            self.slots.clear();
            return;
        };
        self.slots = self.slots.split_off(&oldest);
    }
}
