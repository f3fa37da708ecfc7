//! What is known of each segment: what it is for, how much of it is live, when it was filled, how worn it is.
//!
//! Invariants:
//! - A segment is opened only from the front of the *runway*: the list of free segments, in order, that the
//!   newest checkpoint names and records behind its cut go on with. So recovery knows where to look for what
//!   was written since.
//! - Nothing that recovery may need is overwritten. A segment that something was written to since the newest
//!   checkpoint's cut holds records that are to be applied, so it waits for the next checkpoint. Another one
//!   in which nothing is live may be put on the runway as soon as what superseded its data is durable: it is
//!   *settling* until then.
//! - `live` counts the sectors of a segment that the map, or the newest checkpoint, points at.

use forebay_placement::WriteClock;
use forebay_placement::victim::{Closed, Selection, Victim, Victims};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forebay_units::{RecordSeq, SegmentSeq};

use crate::format::Stream;
use crate::free::Free;
use crate::geometry::{Layout, Slot};
use crate::options::Options;
use crate::segment::{Frontier, Segment, SegmentState};
use forebay_extents::Place;

/// The most segments that a runway names.
pub(crate) const RUNWAY_MAX: usize = 4096;

/// With fewer free segments than one in so many, cleaning would gain nothing worth having.
const SPARE_PART_MAX: u64 = 1024;
/// What passes for live in a segment whose counts are not trusted.
pub(crate) const DOUBTFUL: u32 = u32::MAX / 2;

/// The table of segments.
pub(crate) struct Usage {
    layout: Layout,
    segments: Vec<Segment>,
    /// Readers of each segment.
    pins: Vec<u32>,
    /// Free segments that are not on the runway.
    free: Free,
    runway: VecDeque<Slot>,
    /// Closed segments in which nothing is live.
    empty: BTreeSet<Slot>,
    /// Those of them that are free once this record is durable.
    settling: VecDeque<(RecordSeq, Vec<Slot>)>,
    settling_len: usize,
    frontier: Frontier,
    /// Closed segments in which something is live, that may be cleaned.
    victims: Victims,
    /// Closed segments that are being cleaned, or were since the newest checkpoint.
    aside: BTreeSet<Slot>,
    /// Those that are being cleaned.
    cleaning: BTreeSet<Slot>,
    /// Segments in which something is overwritten, by how many.
    overwriting: BTreeMap<Slot, u32>,
    /// Of those set aside, the ones in which something cannot be read.
    hopeless: BTreeSet<Slot>,
    live: u64,
    /// One in so many segments is kept free of what is mapped.
    spare_part: u64,
    /// How many of the empty segments wait for a checkpoint, if that is known.
    waiting: Cell<Option<usize>>,
}

impl Usage {
    /// Of these segments, with what is to be used first.
    pub(crate) fn new(
        layout: Layout,
        segments: Vec<Segment>,
        runway: VecDeque<Slot>,
        options: &Options,
    ) -> Usage {
        let wear = segments.iter().map(|segment| segment.wear).collect();
        let mut usage = Usage {
            layout,
            pins: vec![0; segments.len()],
            segments,
            free: Free::new(wear, options),
            runway,
            empty: BTreeSet::new(),
            settling: VecDeque::new(),
            settling_len: 0,
            frontier: Frontier::before_all(),
            victims: Victims::new(),
            aside: BTreeSet::new(),
            cleaning: BTreeSet::new(),
            overwriting: BTreeMap::new(),
            hopeless: BTreeSet::new(),
            live: 0,
            waiting: Cell::new(None),
            spare_part: options.spare_part.clamp(2, SPARE_PART_MAX),
        };
        for n in 0..usage.segments.len() {
            let (segment, slot) = (usage.segments[n], Slot(n as u32));
            usage.live += u64::from(segment.live);
            match segment.state {
                SegmentState::Free => {
                    usage.free.add_usable(slot);
                }
                SegmentState::Closed => usage.sort_closed(slot),
                SegmentState::Open | SegmentState::Runway => {}
            }
        }
        usage
    }

    /// Puts a closed segment where it belongs by what is live in it.
    fn sort_closed(&mut self, slot: Slot) {
        let segment = self.segments[slot.0 as usize];
        if segment.live == 0 {
            self.victims.remove(slot.0);
            self.empty.insert(slot);
            self.waiting.set(None);
            return;
        }
        if self.empty.remove(&slot) {
            self.waiting.set(None);
        }
        if self.aside.contains(&slot) {
            return;
        }
        let capacity = self.layout.dense_sectors() as u32;
        let (live, closed) = (segment.live, segment.closed);
        self.victims.add(
            slot.0,
            Closed {
                capacity,
                live,
                closed,
            },
        );
    }

    /// Segments that are kept free of what is mapped, so that there are some with little in them.
    pub(crate) fn spare(&self) -> u64 {
        (self.segments.len() as u64).div_ceil(self.spare_part)
    }

    /// All segments, by their slots.
    pub(crate) fn all(&self) -> &[Segment] {
        &self.segments
    }

    /// What is known of a segment.
    pub(crate) fn get(&self, slot: Slot) -> &Segment {
        &self.segments[slot.0 as usize]
    }

    fn at(&mut self, slot: Slot) -> &mut Segment {
        &mut self.segments[slot.0 as usize]
    }

    /// Sectors that are live.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Segments that can be opened before the next checkpoint.
    pub(crate) fn runway(&self) -> usize {
        self.runway.len()
    }

    /// What will be opened, in order.
    pub(crate) fn runway_slots(&self) -> impl Iterator<Item = Slot> {
        self.runway.iter().copied()
    }

    /// Segments in which nothing is live, in the runway and beyond it, but for those being filled.
    pub(crate) fn unused(&self) -> usize {
        self.runway.len() + self.empty.len() + self.settling_len + self.free.len()
    }

    /// Segments in which nothing is live and that only the next checkpoint lets be used again.
    pub(crate) fn waiting(&self) -> usize {
        let waits = |slot: &&Slot| !self.settles(**slot);
        let count = || self.empty.iter().filter(waits).count();
        let waiting = self.waiting.get().unwrap_or_else(count);
        self.waiting.set(Some(waiting));
        waiting
    }

    /// Segments that were cleaned, and in which nodes are live that leave with the next checkpoint.
    pub(crate) fn held_by_nodes(&self) -> usize {
        let held = |slot: &&Slot| {
            let done = !self.cleaning.contains(slot) && !self.hopeless.contains(slot);
            done && self.get(**slot).live > 0
        };
        self.aside.iter().filter(held).count()
    }

    /// Segments that can be put on the runway without another checkpoint, now or soon.
    pub(crate) fn usable(&self) -> usize {
        self.free.len() + self.empty.len() - self.waiting() + self.settling_len
    }

    /// True if the next `count` segments of the runway are there, and nobody reads what they hold.
    pub(crate) fn can_open(&self, count: usize) -> bool {
        let next = self.runway.iter().take(count);
        self.runway.len() >= count && next.into_iter().all(|slot| self.pins[slot.0 as usize] == 0)
    }

    /// Opens the next segment of the runway.
    ///
    /// # Panics
    /// If there is none, or somebody reads it.
    pub(crate) fn open(&mut self, stream: Stream, seq: SegmentSeq, now: WriteClock) -> Slot {
        let slot = self.runway.pop_front().expect("asked whether there is one");
        self.free.opened(slot);
        assert_eq!(self.pins[slot.0 as usize], 0, "reused a segment being read");
        let segment = self.at(slot);
        debug_assert_eq!(segment.live, 0);
        *segment = segment.opened(stream, seq, now);
        self.hopeless.remove(&slot);
        self.aside.remove(&slot);
        slot
    }

    /// Recovery has come to the first record of a segment that was opened behind the cut.
    pub(crate) fn reopen(&mut self, slot: Slot, stream: Stream, seq: SegmentSeq, now: WriteClock) {
        if self.get(slot).live > 0 {
            // After a crash of a disk that does not do what it is told.
            tracing::error!(?slot, "a segment was used again in which something is live");
            self.live -= u64::from(self.get(slot).live);
        }
        self.victims.remove(slot.0);
        self.empty.remove(&slot);
        self.waiting.set(None);
        self.free.remove(slot);
        self.free.opened(slot);
        *self.at(slot) = self.get(slot).opened(stream, seq, now);
    }

    /// What is appended now was written by users then, on average, as far as the segment is filled.
    pub(crate) fn set_born(&mut self, slot: Slot, born: WriteClock) {
        self.at(slot).born = born;
    }

    /// The segment takes no more.
    pub(crate) fn close(&mut self, slot: Slot, now: WriteClock) {
        let segment = self.at(slot);
        debug_assert_eq!(segment.state, SegmentState::Open);
        segment.state = SegmentState::Closed;
        segment.closed = now;
        self.sort_closed(slot);
    }

    /// No segment takes any more.
    pub(crate) fn close_all(&mut self) {
        for n in 0..self.segments.len() {
            if self.segments[n].state == SegmentState::Open {
                self.close(Slot(n as u32), self.segments[n].closed);
            }
        }
    }

    /// So many sectors at a place came to be pointed at.
    pub(crate) fn count(&mut self, place: Place, sectors: u64) {
        let slot = self.layout.slot_of(place);
        let segment = self.at(slot);
        segment.live += sectors as u32;
        let closed = segment.state == SegmentState::Closed;
        self.live += sectors;
        if closed {
            self.sort_closed(slot);
        }
    }

    /// So many sectors at a place are no longer pointed at. A segment of which more is given up than was counted, as
    /// after a crash of a disk that does not do what it is told, is not trusted with its counts any more: it
    /// passes for full, and is never used again.
    pub(crate) fn discount(&mut self, place: Place, sectors: u64) {
        let slot = self.layout.slot_of(place);
        let segment = self.at(slot);
        let Some(left) = segment.live.checked_sub(sectors as u32) else {
            let doubtful = std::mem::replace(&mut segment.live, DOUBTFUL);
            tracing::error!(?slot, "more is given up in a segment than was counted");
            self.live += u64::from(DOUBTFUL - doubtful);
            self.victims.remove(slot.0);
            return;
        };
        segment.live = left;
        let closed = segment.state == SegmentState::Closed;
        self.live -= sectors;
        match closed && left == 0 {
            true => self.sort_closed(slot),
            false => self.victims.changed(slot.0, left),
        }
    }

    /// Segments to clean, best first, until they gain `wanted` sectors or there are `most` of them. None that
    /// would gain next to nothing.
    pub(crate) fn choose(
        &self,
        selection: Selection,
        now: WriteClock,
        wanted: u64,
        most: usize,
    ) -> Vec<Victim> {
        // Half of what all of them gain on average where as much is mapped as may be: so there always is one.
        let worth = (self.layout.dense_sectors() / (2 * self.spare_part)) as u32;
        let mut chosen = self.victims.choose(selection, now, wanted, most);
        chosen.retain(|victim| victim.gain >= worth);
        chosen
    }

    /// A segment is being cleaned. It is not chosen again before the next checkpoint counts. Says no if something
    /// in it is being overwritten, or it is being cleaned.
    pub(crate) fn begin_cleaning(&mut self, slot: Slot) -> bool {
        if self.overwriting.contains_key(&slot) || !self.cleaning.insert(slot) {
            return false;
        }
        self.victims.remove(slot.0);
        self.aside.insert(slot);
        true
    }

    /// A full segment that is worn so little that what lies there should move, if there is one and it is time for
    /// that.
    pub(crate) fn unworn(&mut self) -> Option<Slot> {
        let (segments, aside) = (&self.segments, &self.aside);
        self.free.unworn(|slot| {
            let segment = &segments[slot.0 as usize];
            segment.state == SegmentState::Closed && segment.live > 0 && !aside.contains(&slot)
        })
    }

    /// How often the least and the most worn segment were opened.
    pub(crate) fn wear(&self) -> (u32, u32) {
        self.free.extremes()
    }

    /// It is no longer being cleaned.
    pub(crate) fn end_cleaning(&mut self, slot: Slot) {
        self.cleaning.remove(&slot);
    }

    /// True if what is dead in a segment may be overwritten: it is still that one, full, and not being cleaned, and
    /// something in it is live, so that it is not about to be used again.
    pub(crate) fn may_overwrite(&self, slot: Slot, seq: SegmentSeq) -> bool {
        let segment = self.get(slot);
        let full = segment.state == SegmentState::Closed && segment.live > 0;
        segment.seq == seq && full && !self.cleaning.contains(&slot)
    }

    /// Something dead in a segment is going to be overwritten: it is neither cleaned nor opened until
    /// [`Usage::end_overwriting`].
    pub(crate) fn begin_overwriting(&mut self, slot: Slot) {
        *self.overwriting.entry(slot).or_insert(0) += 1;
        self.waiting.set(None);
        self.pin(slot);
    }

    /// That is done. Says whether nobody uses the segment any more.
    pub(crate) fn end_overwriting(&mut self, slot: Slot) -> bool {
        if let Some(count) = self.overwriting.get_mut(&slot) {
            *count -= 1;
            if *count == 0 {
                self.overwriting.remove(&slot);
                self.waiting.set(None);
            }
        }
        self.unpin(slot)
    }

    /// Something in a segment cannot be read, so it cannot be emptied. It is not tried again before the volume is
    /// taken up anew.
    pub(crate) fn give_up(&mut self, slot: Slot) {
        self.hopeless.insert(slot);
    }

    /// Sectors that cleaning all segments would gain.
    pub(crate) fn gain(&self) -> u64 {
        self.victims.reclaimable()
    }

    /// How many closed segments are utilised to how many tenths.
    pub(crate) fn histogram(&self) -> [u32; 11] {
        self.victims.histogram()
    }

    /// Has those of the empty segments settle that need no checkpoint, until this record is durable. Says whether
    /// there were any.
    pub(crate) fn settle(&mut self, until: RecordSeq) -> bool {
        let settles = |slot: &Slot| self.settles(*slot);
        let settling: Vec<Slot> = self.empty.iter().copied().filter(settles).collect();
        if settling.is_empty() {
            return false;
        }
        for slot in &settling {
            self.empty.remove(slot);
        }
        self.waiting.set(None);
        self.settling_len += settling.len();
        self.settling.push_back((until, settling));
        true
    }

    /// True if an empty segment may settle.
    pub(crate) fn can_settle(&self) -> bool {
        self.empty.iter().any(|slot| self.settles(*slot))
    }

    /// Whether an empty segment may settle. Not while something in it is overwritten: that may be waiting for room, and
    /// nothing behind it on the runway could be opened.
    fn settles(&self, slot: Slot) -> bool {
        let past = self.frontier.is_past(self.get(slot).seq);
        past && !self.overwriting.contains_key(&slot)
    }

    /// The record that the first of those that are settling wait for.
    pub(crate) fn settles_with(&self) -> Option<RecordSeq> {
        self.settling.front().map(|(until, _)| *until)
    }

    /// Every record up to this one is durable: what has settled is free.
    pub(crate) fn settled(&mut self, stable: RecordSeq) {
        while let Some((until, _)) = self.settling.front()
            && *until <= stable
        {
            let (_, slots) = self.settling.pop_front().expect("looked at");
            self.settling_len -= slots.len();
            for slot in slots {
                self.aside.remove(&slot);
                let segment = self.at(slot);
                debug_assert_eq!(segment.live, 0);
                segment.state = SegmentState::Free;
                self.free.add(slot);
            }
        }
    }

    /// Takes at most `most` free segments that are to be discarded and that nobody reads, in order.
    pub(crate) fn take_stale(&mut self, most: usize) -> Vec<Slot> {
        let pins = &self.pins;
        self.free
            .take_stale(most, |slot| pins[slot.0 as usize] == 0)
    }

    /// These are discarded.
    pub(crate) fn discarded(&mut self, slots: &[Slot]) {
        self.free.discarded(slots);
    }

    /// Takes at most `most` free segments to be put on the runway, least worn first.
    pub(crate) fn take_free(&mut self, most: usize) -> Vec<Slot> {
        let taken = self.free.take(most);
        for slot in &taken {
            self.at(*slot).state = SegmentState::Runway;
        }
        taken
    }

    /// Free segments that may be put on the runway at once.
    pub(crate) fn free(&self) -> usize {
        self.free.usable()
    }

    /// These are opened next, behind what is on the runway.
    pub(crate) fn extend(&mut self, slots: Vec<Slot>) {
        self.runway.extend(slots);
    }

    /// The checkpoint that was cut then counts.
    pub(crate) fn pass(&mut self, frontier: Frontier) {
        self.frontier = frontier;
        self.waiting.set(None);
        for slot in std::mem::take(&mut self.aside) {
            if self.hopeless.contains(&slot) {
                self.aside.insert(slot);
            } else if self.get(slot).state == SegmentState::Closed && self.get(slot).live > 0 {
                self.sort_closed(slot);
            }
        }
    }

    /// Keeps a segment from being opened while it is read.
    pub(crate) fn pin(&mut self, slot: Slot) {
        self.pins[slot.0 as usize] += 1;
    }

    /// Says whether that was the last reader.
    pub(crate) fn unpin(&mut self, slot: Slot) -> bool {
        let pins = &mut self.pins[slot.0 as usize];
        *pins -= 1;
        *pins == 0
    }
}
