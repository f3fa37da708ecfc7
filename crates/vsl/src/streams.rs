//! The open segments: several streams of records in one order.
//!
//! Plain data and no waiting. Users' streams are composed together, in a *round*: their open records get
//! numbers one after the other, and recovery takes up all of them or none (each says that it goes on in the
//! next). So it does not matter in which stream a write went: what recovery finds is what was done up to some
//! moment. The other streams' records (moved data, what checkpoints write) are composed by themselves.
//!
//! Invariants, beside those of [`Builder`], [`Flight`] and [`Usage`]:
//! - Nothing is in two open records of a round: what overwrites a piece that lies in another stream's open
//!   record ends the round first.
//! - A batch is composed in one go, so nothing comes between its records.
//! - Only users' records are open between two calls from outside.

use forebay_placement::{WriteClock, placement};
use std::collections::BTreeMap;

use forebay_segments::{Builder, Closing, Composer, Entry as _, Flight, Sealing, VolumeId};
use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, SegmentSeq};

use crate::format::{ENTRY_BYTES_MAX, Entry, MetaKind, Stream, Volume, encode_runway};
use crate::geometry::{Layout, Slot};
use crate::usage::Usage;
use forebay_extents::Place;

/// A gap between the last record and the summary that is cheaper to write than to skip, in bytes.
const FILL_BYTES: u32 = 64 << 10;
/// What of a segment is given up when it is asked what surely fits, in bytes: two headers that are not full, the
/// summary's last block, and a piece that goes to the next segment.
const LEFT_BYTES: u64 = 6 * 4096;
/// The most segments that may be written before they are flushed unasked.
const FLUSH_AFTER_SEGMENTS: usize = 8;

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

/// Which streams there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    /// Streams that users' writes go to: numbers 0 to this.
    pub(crate) user: u8,
    /// Streams of moved data, behind those.
    pub(crate) moved: u8,
}

impl Counts {
    /// The stream that checkpoints write to, behind all others.
    pub(crate) fn meta(self) -> Stream {
        Stream(self.user + self.moved)
    }

    /// What placements call a stream. What checkpoints write, they know nothing of.
    pub(crate) fn named(self, stream: Stream) -> placement::Stream {
        match stream.0.checked_sub(self.user) {
            None => placement::Stream::User(stream.0),
            Some(moved) => placement::Stream::Moved(moved),
        }
    }

    /// All streams.
    pub(crate) fn all(self) -> u8 {
        self.user + self.moved + 1
    }
}

/// The open segments, and what is known of all.
pub(crate) struct Streams {
    pub(crate) layout: Layout,
    pub(crate) volume: VolumeId,
    pub(crate) epoch: Epoch,
    pub(crate) counts: Counts,
    pub(crate) usage: Usage,
    /// Sectors that users have written.
    pub(crate) clock: WriteClock,
    pub(crate) next_segment: SegmentSeq,
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
}

impl Streams {
    pub(crate) fn new(layout: Layout, counts: Counts, usage: Usage, resume: Resume) -> Streams {
        let shape = layout.shape();
        Streams {
            layout,
            volume: resume.volume,
            epoch: resume.epoch,
            counts,
            usage,
            clock: resume.clock,
            next_segment: resume.next_segment,
            next_record: resume.next_record,
            open: (0..counts.all()).map(|_| None).collect(),
            flight: Flight::new(shape, resume.next_record.prev(), counts.all().into()),
            slots: BTreeMap::new(),
            rounds: 0,
            batch_begun: false,
            batch_hangs: false,
        }
    }

    /// The newest record that is composed.
    pub(crate) fn last_record(&self) -> RecordSeq {
        self.next_record.prev()
    }

    /// Segments that surely hold `bytes` in `entries` entries, some blocks of each given up to headers, padding and
    /// what does not fit its end.
    fn segments_for(&self, bytes: u64, entries: u64) -> usize {
        let room = u64::from(self.layout.segment_bytes) - LEFT_BYTES;
        // In a header, and again in the summary.
        let overhead = entries * 2 * ENTRY_BYTES_MAX as u64;
        (bytes + overhead).div_ceil(room) as usize + 1
    }

    /// Segments that a write of `bytes` in at most `entries` entries may open in users' streams, however it
    /// is spread over them.
    pub(crate) fn segments_needed(&self, bytes: u64, entries: u64) -> usize {
        let user = usize::from(self.counts.user);
        let fits = |open: &Option<Open>| {
            let open = open.as_ref();
            open.is_some_and(|open| open.builder.surely_fits(bytes, entries, ENTRY_BYTES_MAX))
        };
        if self.open[..user].iter().all(fits) {
            return 0;
        }
        self.segments_for(bytes, entries) + user - 1
    }

    /// True if an entry with `bytes` of data surely fits the segment that is open in a stream.
    pub(crate) fn fits(&self, stream: Stream, bytes: u64) -> bool {
        let open = self.open[usize::from(stream.0)].as_ref();
        open.is_some_and(|open| open.builder.surely_fits(bytes, 1, ENTRY_BYTES_MAX))
    }

    /// True if so many segments can be opened without waiting: for the device to take what is in memory, or for
    /// readers of what lies in them.
    pub(crate) fn can_open(&self, segments: usize) -> bool {
        let crowded = self.flight.room() < segments && self.flight.oldest().is_some();
        let alone = self.flight.jobs_in_flight() == 0 && !self.flight.has_jobs();
        segments == 0 || self.usage.can_open(segments) && (!crowded || alone)
    }

    /// True if what lies at a place is in an open record of a user's stream other than this one.
    pub(crate) fn is_open_elsewhere(&self, place: Place, stream: Stream) -> bool {
        let slot = self.layout.slot_of(place);
        let user = &self.open[..usize::from(self.counts.user)];
        let at = user
            .iter()
            .position(|open| open.as_ref().is_some_and(|open| open.slot == slot));
        let Some(n) = at.filter(|n| *n != usize::from(stream.0)) else {
            return false;
        };
        let open = self.open[n].as_ref().expect("found");
        open.builder.has_open_record() && self.layout.offset_of(place) >= open.builder.at()
    }

    /// Appends an entry with its data to a stream. There must be room. Says where the data lies.
    pub(crate) fn append(&mut self, stream: Stream, entry: Entry, data: &[u8]) -> Place {
        let len = data.len() as u32;
        self.make_room(stream, entry.encoded_len(), len);
        if self.is_user(stream) {
            self.batch_begun = true;
        }
        let open = self.open[usize::from(stream.0)]
            .as_mut()
            .expect("made room");
        if let Entry::Moved { sectors, born, .. } = entry {
            let born = open.add_birth(sectors.into(), born);
            self.usage.set_born(open.slot, born);
        }
        let offset = open.builder.push(entry, len);
        let ram = self.flight.segment_mut(open.builder.seq());
        ram.unfrozen(offset..offset + len).copy_from_slice(data);
        self.layout.place(open.slot, offset)
    }

    fn is_user(&self, stream: Stream) -> bool {
        stream.0 < self.counts.user
    }

    fn make_room(&mut self, stream: Stream, entry_bytes: usize, len: u32) {
        let n = usize::from(stream.0);
        if let Some(open) = &self.open[n] {
            if open.builder.fits_record(entry_bytes, len) {
                return;
            }
            if open.builder.has_open_record() {
                self.compose(stream);
            }
            let open = self.open[n].as_ref().expect("still open");
            if !open.builder.fits_new_record(entry_bytes, len) {
                self.seal(stream);
            }
        }
        if self.open[n].is_none() {
            self.open_segment(stream);
            return;
        }
        self.open_record(stream);
    }

    fn open_segment(&mut self, stream: Stream) {
        let seq = self.next_segment;
        self.next_segment = seq.next();
        let slot = self.usage.open(stream, seq, self.clock);
        self.flight.begin_segment(seq);
        self.slots.insert(seq, slot);
        let builder = Builder::new(seq, self.layout.shape());
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
        if self.is_user(stream) && !self.has_open_round() {
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
        match self.is_user(stream) {
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
        for n in self.counts.user..self.counts.all() {
            self.compose_inside(n.into());
        }
    }

    /// Composes all that is open. Says the newest record.
    pub(crate) fn end_all(&mut self) -> RecordSeq {
        self.end_round();
        self.end_inside();
        self.last_record()
    }

    /// Puts free segments on the runway, if there is room to say so.
    pub(crate) fn extend_runway(&mut self, most: usize) {
        let (meta, bytes) = (self.counts.meta(), (most as u64 + 1) * 4);
        let fits = self.fits(meta, bytes.next_multiple_of(SECTOR_BYTES)) || self.can_open(1);
        if !fits || self.usage.free() == 0 {
            return;
        }
        let slots = self.usage.take_free(most);
        let numbers: Vec<u32> = slots.iter().map(|slot| slot.0).collect();
        let bytes = encode_runway(&numbers);
        let entry = Entry::Meta {
            kind: MetaKind::Runway,
            index: 0,
            sectors: (bytes.len() as u64 / SECTOR_BYTES) as u16,
            crc: crc32c::crc32c(&bytes),
        };
        self.append(meta, entry, &bytes);
        // Before anything that is written to them.
        self.end_inside();
        self.usage.extend(slots);
    }

    /// Ends the segment that is open in a stream with its summary.
    fn seal(&mut self, stream: Stream) {
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
            fill: FILL_BYTES,
        };
        let ram = self.flight.segment_mut(open.builder.seq());
        open.builder.seal(ram, &end);
        self.usage.close(open.slot, self.clock);
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
        let seq = self.usage.get(self.layout.slot_of(place)).seq;
        let ram = self.flight.segment(seq)?;
        let offset = self.layout.offset_of(place);
        ram.bytes(offset..offset + (sectors * SECTOR_BYTES) as u32)
    }

    /// Whether the segment of a place is still in memory.
    pub(crate) fn is_in_ram(&self, place: Place) -> bool {
        let seq = self.usage.get(self.layout.slot_of(place)).seq;
        self.flight.segment(seq).is_some()
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

impl Composer for Streams {
    fn flight(&self) -> &Flight {
        &self.flight
    }

    fn flight_mut(&mut self) -> &mut Flight {
        &mut self.flight
    }

    fn segment_at(&self, segment: SegmentSeq) -> u64 {
        self.layout.slot_at(self.slots[&segment])
    }

    fn open(&self) -> Option<u64> {
        self.has_open_round().then_some(self.rounds)
    }

    fn open_bytes(&self) -> u32 {
        let user = self.open[..usize::from(self.counts.user)].iter().flatten();
        user.into_iter()
            .map(|open| open.builder.open_record_bytes())
            .sum()
    }

    fn close(&mut self) -> RecordSeq {
        self.end_round();
        self.last_record()
    }

    fn wants_flush(&self) -> bool {
        let segments = self.flight.segments().count();
        let open = self.open.iter().flatten().count();
        let others = (self.flight.room_max() - open) / 2;
        segments > open + FLUSH_AFTER_SEGMENTS.min(others)
    }

    fn set_stable(&mut self, covered: RecordSeq) {
        self.flight.set_stable(covered);
        self.forget_slots();
    }
}
