//! The open segments: several streams of records in one order.
//!
//! Plain data and no waiting. Users' streams are composed together, in a *round*: their open records get
//! numbers one after the other, and recovery takes up all of them or none (each says that it goes on in the
//! next). So it does not matter in which stream a write went: what recovery finds is what was done up to some
//! moment. The other streams' records (moved data, what checkpoints write) are composed by themselves.
//!
//! Invariants, beside those of [`Builder`], [`Flight`] and [`SegmentTable`]:
//! - Nothing is in two open records of a round: what overwrites a piece that lies in another stream's open
//!   record ends the round first.
//! - A batch is composed in one go, so nothing comes between its records.
//! - Only users' records are open between two calls from outside.

pub(crate) mod bare;
mod composer;
mod counts;
mod gain;
mod shape;

use forebay_placement::WriteClock;
use std::collections::BTreeMap;

use forebay_segments::{Builder, Closing, Entry as _, Flight, Sealing, VolumeId};
use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, SegmentSeq};

use crate::changed::ChangedBounds;
use crate::claim::{Claim, Floors, Grant, Wanted};
use crate::format::{ENTRY_BYTES_MAX, Entry, MetaKind, PART_BYTES, Stream, Volume, encode_queue};
use crate::geometry::{Layout, Slot};
use crate::table::SegmentTable;
pub(crate) use counts::Counts;
use forebay_extents::Place;
pub(crate) use shape::StreamShape;

/// The most bytes that are left before a summary: what is appended has at most `PART_BYTES`, and takes two headers more. They are
/// filled and not skipped, so that a segment can be a zone that is written in order.
const FILL_BYTES: u32 = PART_BYTES as u32 + (32 << 10);
/// What of a segment is given up when it is asked what surely fits, in bytes: two headers that are not full, a
/// summary's last block, and a piece that goes to the next segment.
const LEFT_BYTES: u64 = 6 * 4096;
/// What ending a record early takes of its segment, in bytes: a header, and padding.
const ROUND_BYTES: u64 = 2 * 4096;
/// The most segments that may be written before they are flushed unasked.
const FLUSH_AFTER_SEGMENTS: usize = 8;

/// A record of moved data may end so many entries before its header is full: eight of one sector each make a block.
const ENDS_WITHIN: usize = 8;

/// A segment that is being filled.
struct Open {
    builder: Builder<Volume>,
    slot: Slot,
    /// Sectors of moved data in it, and the sum of when they were born.
    moved: u64,
    births: u128,
}

impl Open {
    /// Moved data was appended. Says when what is moved here was born, on average.
    fn add_birth(&mut self, sectors: u64, born: WriteClock) -> WriteClock {
        self.moved += sectors;
        self.births += u128::from(born.0) * u128::from(sectors);
        WriteClock((self.births / u128::from(self.moved)) as u64)
    }
}

/// The open segments, and what is known of all.
pub(crate) struct Streams {
    pub(crate) layout: Layout,
    pub(crate) volume: VolumeId,
    pub(crate) epoch: Epoch,
    pub(crate) counts: Counts,
    pub(crate) table: SegmentTable,
    /// Sectors that users have written.
    pub(crate) clock: WriteClock,
    pub(crate) next_segment: SegmentSeq,
    /// Bytes of nodes that a checkpoint under way still writes.
    pub(crate) frozen_bytes: u64,
    pub(crate) changed: ChangedBounds,
    /// Memory for the map: writers wait for a checkpoint when changed nodes take as much.
    pub(crate) map_bytes: u64,
    /// Sectors that are kept free for batches that preallocated them.
    pub(crate) preallocated: u64,
    /// The record that is composed next.
    next_record: RecordSeq,
    open: Vec<Option<Open>>,
    flight: Flight,
    /// Where the segments lie that are in memory.
    slots: BTreeMap<SegmentSeq, Slot>,
    /// Grows with each round that is begun; names what is open.
    rounds: u64,
    /// Something was appended for users that no [`Streams::end_batch`] has ended yet.
    batch_begun: bool,
    /// The newest of users' records goes on in the next.
    batch_hangs: bool,
}

/// Where a volume goes on.
pub(crate) struct Resume {
    pub(crate) volume: VolumeId,
    pub(crate) epoch: Epoch,
    pub(crate) next_segment: SegmentSeq,
    pub(crate) next_record: RecordSeq,
    pub(crate) clock: WriteClock,
    pub(crate) changed: ChangedBounds,
    pub(crate) map_bytes: u64,
}

impl Streams {
    pub(crate) fn new(
        layout: Layout,
        counts: Counts,
        table: SegmentTable,
        resume: Resume,
    ) -> Streams {
        let shape = layout.shape();
        Streams {
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
            open: (0..Stream::COUNT).map(|_| None).collect(),
            flight: Flight::new(shape, resume.next_record.prev(), counts.all().into()),
            slots: BTreeMap::new(),
            rounds: 0,
            batch_begun: false,
            batch_hangs: false,
        }
    }

    /// The newest checkpoint has more segments than the one before.
    pub(crate) fn grow(&mut self, layout: Layout, changed: ChangedBounds) {
        self.layout = layout;
        self.changed = changed;
        self.table.grow(layout);
    }

    /// The newest record that is composed.
    pub(crate) fn last_record(&self) -> RecordSeq {
        self.next_record.prev()
    }

    /// Segments that surely hold what is wanted, some blocks of each given up to headers, padding and what does not fit its
    /// end.
    fn segments_for(&self, wanted: Wanted, streams: usize) -> usize {
        let room = u64::from(self.layout.segment_bytes) - LEFT_BYTES;
        // In a header, and again in the summary if there is one.
        let entries = wanted.entries * 2 * ENTRY_BYTES_MAX as u64;
        let rounds = match streams {
            1 => 0,
            // Each ends the open record of every stream before it is full.
            _ => wanted.rounds * streams as u64 * ROUND_BYTES,
        };
        (wanted.bytes + entries + rounds).div_ceil(room) as usize + streams - 1
    }

    /// Segments that what is wanted may open in users' streams, however it is spread over them. Trims go to the first.
    pub(crate) fn segments_needed(&self, wanted: Wanted) -> usize {
        let streams = match wanted.bytes {
            0 => 1,
            _ => usize::from(self.counts.user),
        };
        let rounds = if streams == 1 { 0 } else { wanted.rounds };
        let bytes = wanted.bytes + rounds * ROUND_BYTES;
        let fits = |open: &Option<Open>| {
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

    /// True if `bytes` of data in `entries` entries surely fit the segment that is open in a stream.
    fn fits(&self, stream: Stream, bytes: u64, entries: u64) -> bool {
        let open = self.open[usize::from(stream.0)].as_ref();
        open.is_some_and(|open| open.builder.surely_fits(bytes, entries, ENTRY_BYTES_MAX))
    }

    /// True if memory for so many segments can be had without waiting until the device has taken what is there.
    pub(crate) fn has_memory(&self, segments: usize) -> bool {
        let crowded = self.flight.room() < segments && self.flight.oldest().is_some();
        // While the device fails nothing is at rest, and memory stays bounded.
        let alone = self.flight.is_at_rest();
        segments == 0 || !crowded || alone
    }

    /// Permission for a claim to open so many segments, if it leaves its floor on the allocation queue and there is memory.
    /// To be used before anything else takes segments.
    pub(crate) fn grant(
        &self,
        floors: &impl Floors,
        claim: Claim,
        segments: usize,
    ) -> Option<Grant> {
        let adds_to_no_checkpoint = matches!(claim, Claim::Queue | Claim::Checkpoint);
        let enough = segments == 0 && adds_to_no_checkpoint
            || self.table.queued() >= segments + floors.floor(claim);
        // Numbers are enough for 4 EiB that are written in a volume's life.
        let numbered = self.next_segment.0 + (segments as u64) < self.layout.numbers();
        (enough && numbered && self.has_memory(segments)).then_some(Grant { segments })
    }

    /// Permission to append `bytes` of data in `entries` entries, of which a new segment surely holds all, to a stream.
    pub(crate) fn grant_entry(
        &self,
        floors: &impl Floors,
        claim: Claim,
        stream: Stream,
        (bytes, entries): (u64, u64),
    ) -> Option<Grant> {
        let segments = usize::from(!self.fits(stream, bytes, entries));
        self.grant(floors, claim, segments)
    }

    /// True if what lies at a place is in an open record of a user's stream other than this one.
    pub(crate) fn is_open_elsewhere(&self, place: Place, stream: Stream) -> bool {
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

    /// Appends an entry with its data to a stream. Returns where the data lies.
    ///
    /// # Panics
    /// If it needs more segments than were granted.
    pub(crate) fn append(
        &mut self,
        grant: &mut Grant,
        stream: Stream,
        entry: Entry,
        data: &[u8],
    ) -> Place {
        let len = data.len() as u32;
        self.make_room(grant, stream, entry.encoded_len(), data);
        if stream.is_user() {
            self.batch_begun = true;
        }
        let open = self.open[usize::from(stream.0)]
            .as_mut()
            .expect("made room");
        if let Entry::Moved { sectors, born, .. } = entry {
            let born = open.add_birth(sectors.into(), born);
            self.table.set_born(open.slot, born);
        }
        let offset = open.builder.push(entry, len);
        let ram = self.flight.segment_mut(open.builder.seq());
        ram.unfrozen(offset..offset + len).copy_from_slice(data);
        self.layout.place(open.builder.seq(), offset)
    }

    fn make_room(&mut self, grant: &mut Grant, stream: Stream, entry_bytes: usize, data: &[u8]) {
        let n = usize::from(stream.0);
        if let Some(open) = &self.open[n] {
            // Records of moved data end with a block where that is possible.
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

    fn open_segment(&mut self, grant: &mut Grant, stream: Stream) {
        debug_assert!(
            grant.segments > 0,
            "a segment was opened that was not granted"
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
        let builder = Builder::new(seq, self.layout.shape(), self.bare_records(stream));
        self.open[usize::from(stream.0)] = Some(Open {
            builder,
            slot,
            moved: 0,
            births: 0,
        });
        self.open_record(stream);
        let clock = self.clock;
        let open = self.open[usize::from(stream.0)].as_mut().expect("opened");
        open.builder.push(Entry::Opened { stream, clock }, 0);
    }

    fn open_record(&mut self, stream: Stream) {
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

    /// Ends a batch: what was appended for users since the last one ended is taken up together or not at all.
    pub(crate) fn end_batch(&mut self) {
        self.batch_begun = false;
    }

    /// Composes what is open in a stream; of a user's stream, the whole round.
    fn compose(&mut self, stream: Stream) {
        match stream.is_user() {
            true => self.end_round(),
            false => self.compose_inside(stream.0.into()),
        }
    }

    /// Composes what is open in a stream that is not a user's. Nothing may come between the records of a batch,
    /// so if the last of those is still open, it goes first.
    fn compose_inside(&mut self, n: usize) {
        let open = self.open[n].as_ref();
        if open.is_some_and(|open| open.builder.has_open_record()) {
            if self.batch_hangs {
                self.end_round();
            }
            self.compose_one(n, false);
        }
    }

    /// Composes all that is open in users' streams.
    pub(crate) fn end_round(&mut self) {
        let is_open = |open: &Option<Open>| {
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
        let closing = Closing {
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

    /// Composes what is open in the streams that are not users'.
    pub(crate) fn end_inside(&mut self) {
        for n in Stream::moved(0).0..=Stream::META.0 {
            self.compose_inside(n.into());
        }
    }

    /// Composes all that is open. Says the newest record.
    pub(crate) fn end_all(&mut self) -> RecordSeq {
        self.end_round();
        self.end_inside();
        self.last_record()
    }

    /// Puts free segments on the allocation queue, if there is room for the record that says so.
    pub(crate) fn extend_queue(&mut self, floors: &impl Floors, most: usize) {
        let (meta, bytes) = (Stream::META, (most as u64 + 1) * 4);
        let bytes = bytes.next_multiple_of(SECTOR_BYTES);
        let Some(mut grant) = self.grant_entry(floors, Claim::Queue, meta, (bytes, 1)) else {
            return;
        };
        let slots = self.table.take_free(most);
        if slots.is_empty() {
            return;
        }
        let numbers: Vec<u32> = slots.iter().map(|slot| slot.0).collect();
        let bytes = encode_queue(&numbers);
        let entry = Entry::Meta {
            kind: MetaKind::Queue,
            index: 0,
            sectors: (bytes.len() as u64 / SECTOR_BYTES) as u16,
            crc: crc32c::crc32c(&bytes),
        };
        self.append(&mut grant, meta, entry, &bytes);
        // Before anything that is written to them.
        self.end_inside();
        self.table.extend(slots);
    }

    /// Ends the segment that is open in a stream. What is left before its summary is written if it has at most `fill` bytes, and
    /// else skipped.
    fn seal(&mut self, stream: Stream, fill: u32) {
        let n = usize::from(stream.0);
        debug_assert!(
            self.open[n]
                .as_ref()
                .is_some_and(|open| !open.builder.has_open_record())
        );
        let Some(open) = self.open[n].take() else {
            return;
        };
        let end = Sealing {
            volume: self.volume,
            epoch: self.epoch,
            stable: self.flight.stable(),
            fill,
        };
        let ram = self.flight.segment_mut(open.builder.seq());
        let left = open.builder.summary_at() - open.builder.at();
        let is_bare = open.builder.summary_at() == self.layout.segment_bytes;
        debug_assert!(is_bare || left <= FILL_BYTES, "{left} bytes are skipped");
        open.builder.seal(ram, &end);
        self.flight.release_memory();
        self.table.close(open.slot, self.clock);
    }

    /// The segments that are being filled, by their streams.
    pub(crate) fn open_segments(&self) -> impl Iterator<Item = (Stream, Slot, SegmentSeq)> {
        let open = self.open.iter().enumerate();
        open.filter_map(|(n, open)| {
            let open = open.as_ref()?;
            Some((Stream(n as u8), open.slot, open.builder.seq()))
        })
    }

    /// The bytes at a place, if its segment is still in memory. A run within one record only.
    pub(crate) fn in_ram(&self, place: Place, sectors: u64) -> Option<&[u8]> {
        let ram = self.flight.segment(self.layout.segment_of(place))?;
        let offset = self.layout.offset_of(place);
        ram.bytes(offset..offset + (sectors * SECTOR_BYTES) as u32)
    }

    /// True if the segment of a place is still in memory.
    pub(crate) fn is_in_ram(&self, place: Place) -> bool {
        self.flight.segment(self.layout.segment_of(place)).is_some()
    }

    /// Forgets where segments lie that are no longer in memory.
    fn forget_slots(&mut self) {
        let Some(oldest) = self.flight.oldest() else {
            self.slots.clear();
            return;
        };
        self.slots = self.slots.split_off(&oldest);
    }
}
