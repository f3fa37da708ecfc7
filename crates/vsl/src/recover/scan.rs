//! Finding the records that were written since the newest checkpoint.
//!
//! Read-only, so that `check` and recovery are the same code. The checkpoint says where to look: in the
//! segments that were open at its cut, and in those of its allocation queue, which are opened in that order and have
//! the numbers that follow; records continue the queue. What is trusted and why:
//! - Records up to the highest `stable` seen anywhere were durable: a summary, or a header, is enough. Nothing rests on the
//!   `stable` of a summary that headers do not have: a segment of few records has no summary (`headers.rs`). The superblock
//!   names the newest one once the volume is idle.
//! - A record past that is verified, header and payload; the first that is missing or fails ends the order:
//!   a torn end, which is normal.
//! - How far records were durable may be said by one far behind, in a segment that records between continue the queue with. So
//!   headers are followed as far as there are any, before the payload of the first is verified. What was durable may have been
//!   overwritten in place, or be damaged, and is then no torn end.
//! - If the record at which the order ends is not past the highest `stable`, something durable is missing:
//!   that is damage, and the caller decides.
//! - A segment whose first header is neither one nor zeroes is looked through if it may have been opened: records behind it
//!   may tell that it was durable. On a device that held something else before, most segments begin like this, so only as
//!   many are looked through behind the last that shows records as memory may have held.
//! - What cannot be read is not taken for missing: it may be readable at the next try.

use std::collections::{BTreeMap, HashSet};

use forebay_device::{DeviceError, is_zero};
use forebay_segments::{Entry as _, payload_is_sound};
use forebay_units::{RecordSeq, SECTOR_BYTES, SegmentSeq, round_up};
use futures_util::StreamExt;
use futures_util::stream;

use crate::format::{Checkpoint, Entry, HEADER_BYTES, MetaKind, Record, Superblock, decode_queue};
use crate::geometry::{Layout, Slot};
use crate::headers::Headers;
use crate::recover::Ahead;
use crate::store::{SegmentStore, read_checked, read_summary};

/// Segments looked at at once.
const LOOKS: usize = 32;

/// A record that was written since the checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct FoundRecord {
    pub(crate) slot: Slot,
    pub(crate) segment: SegmentSeq,
    pub(crate) offset: u32,
    pub(crate) continues: bool,
    pub(crate) entries: Vec<Entry>,
}

/// What was written since a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    /// The records that count, in their order, from the one behind the cut.
    pub(crate) records: Vec<FoundRecord>,
    /// The last of them.
    pub(crate) last: RecordSeq,
    /// The newest record known to have been durable.
    pub(crate) stable: RecordSeq,
    /// The allocation queue from the cut on, opened or not.
    pub(crate) queue: Vec<Slot>,
    /// Bytes read to find out.
    pub(crate) bytes_read: u64,
}

impl Scan {
    /// True if something that was durable is missing.
    pub(crate) fn is_damaged(&self) -> bool {
        self.last < self.stable
    }

    /// A number behind all that were given to segments since the checkpoint.
    ///
    /// The segments of the allocation queue have their numbers, opened or not. A record that was lost may have continued the queue.
    /// Segments that were opened then have no durable record, so all of them were in memory at once. If durable records are
    /// missing, the queue is unknown. But records behind the checkpoint keep a segment from being used again, so each slot was
    /// opened once at most.
    pub(crate) fn behind_all(&self, checkpoint: &Checkpoint, layout: &Layout) -> SegmentSeq {
        let slots = u64::from(layout.segment_count);
        let given = match self.is_damaged() {
            true => slots,
            false => slots.min((self.queue.len() + layout.in_memory_max()) as u64),
        };
        checkpoint.next_segment.plus(given)
    }
}

/// What one segment shows.
struct Look {
    records: Vec<(RecordSeq, FoundRecord)>,
    stable: RecordSeq,
    bytes_read: u64,
    /// What stands where it begins is neither a record nor zeroes.
    garbled: bool,
}

/// Where recovery looks.
struct Place<'a> {
    store: &'a dyn SegmentStore,
    superblock: &'a Superblock,
}

impl Place<'_> {
    /// The records in a segment, if it was opened with this number in the superblock's epoch.
    async fn look(&self, slot: Slot, segment: SegmentSeq) -> Result<Look, DeviceError> {
        let volume = self.superblock.volume;
        let mut look = Look {
            records: Vec::new(),
            stable: RecordSeq(0),
            bytes_read: HEADER_BYTES as u64,
            garbled: false,
        };
        let summary = read_summary(self.store, volume, slot, segment).await?;
        if let Some(summary) = summary.filter(|summary| summary.epoch == self.superblock.epoch) {
            look.stable = summary.stable;
            look.records
                .extend(summary.records.into_iter().map(|record| {
                    let found = FoundRecord {
                        slot,
                        segment,
                        offset: record.offset,
                        continues: record.continues,
                        entries: record.entries,
                    };
                    (record.seq, found)
                }));
            return Ok(look);
        }
        let mut headers = self.headers(slot, segment);
        let (first, record) = headers.first().await?;
        look.garbled = record.is_none() && is_garbled(first);
        if record.is_some() {
            self.follow(headers, &mut look).await?;
        } else {
            look.bytes_read += headers.bytes_read;
        }
        Ok(look)
    }

    fn headers(&self, slot: Slot, segment: SegmentSeq) -> Headers<'_> {
        let superblock = self.superblock;
        let epoch = Some(superblock.epoch);
        Headers::new(self.store, superblock.volume, (slot, segment), epoch)
    }

    /// Looks for records in a segment whose first header is garbled: by what follows it is told whether that was durable.
    async fn look_through(&self, slot: Slot, segment: SegmentSeq) -> Result<Look, DeviceError> {
        let mut look = Look {
            records: Vec::new(),
            stable: RecordSeq(0),
            bytes_read: 0,
            garbled: true,
        };
        self.follow(self.headers(slot, segment), &mut look).await?;
        Ok(look)
    }

    /// Takes in the records of a segment.
    async fn follow(&self, mut headers: Headers<'_>, look: &mut Look) -> Result<(), DeviceError> {
        while let Some(record) = headers.next().await? {
            look.stable = look.stable.max(record.stable);
            let found = FoundRecord {
                slot: headers.slot,
                segment: headers.segment,
                offset: record.offset,
                continues: record.continues,
                entries: record.entries,
            };
            look.records.push((record.seq, found));
        }
        look.bytes_read += headers.bytes_read;
        Ok(())
    }

    /// True if all of a record is there as it was written.
    async fn is_whole(&self, seq: RecordSeq, record: &FoundRecord) -> Result<bool, DeviceError> {
        let sectors: u64 = record
            .entries
            .iter()
            .map(|entry| entry.payload_sectors())
            .sum();
        let len = HEADER_BYTES as u64 + sectors * SECTOR_BYTES;
        let len = round_up(len, self.store.layout().block.into());
        let from = u64::from(record.offset);
        let is_whole = |bytes: &[u8]| {
            let header = header_at_offset(bytes, self.superblock, record);
            let is_it = |header: Record| {
                header.seq == seq
                    && header.epoch == self.superblock.epoch
                    && header.entries == record.entries
            };
            header.is_some_and(is_it) && payload_is_sound(bytes, 0, &record.entries)
        };
        read_checked(self.store, record.slot, from..from + len, is_whole).await
    }

    /// The segments that a record puts on the allocation queue, which `known` has not; `None` if what it says of them is not
    /// sound.
    async fn queue_in(
        &self,
        record: &FoundRecord,
        known: &mut HashSet<Slot>,
    ) -> Result<Option<Vec<Slot>>, DeviceError> {
        let mut at = u64::from(record.offset) + HEADER_BYTES as u64;
        let mut slots = Vec::new();
        for entry in &record.entries {
            let len = entry.payload_sectors() * SECTOR_BYTES;
            if let Entry::Meta {
                kind: MetaKind::Queue,
                crc,
                ..
            } = *entry
            {
                let decode = |bytes: &[u8]| {
                    let is_sound = crc32c::crc32c(bytes) == crc;
                    is_sound.then(|| decode_queue(bytes)).flatten()
                };
                let read = read_checked(self.store, record.slot, at..at + len, decode).await?;
                let Some(more) = read else {
                    return Ok(None);
                };
                slots.extend(more.into_iter().map(Slot));
            }
            at += len;
        }
        let count = self.store.layout().segment_count;
        let sound = |slot: &Slot| slot.0 < count && known.insert(*slot);
        Ok(slots.iter().all(sound).then_some(slots))
    }
}

/// The header that `bytes` begin with, if it belongs where `record` lies.
fn header_at_offset(bytes: &[u8], superblock: &Superblock, record: &FoundRecord) -> Option<Record> {
    let header = Record::decode(bytes.get(..HEADER_BYTES)?).ok()?;
    let here = header.volume == superblock.volume
        && header.segment == record.segment
        && header.offset == record.offset;
    here.then_some(header)
}

/// True of what was neither written there nor never written at all: a record's header that is torn or damaged.
fn is_garbled(first: &[u8]) -> bool {
    Record::decode(first).is_err() && !is_zero(first)
}

/// The allocation queue from the cut on, as far as headers tell it, whether or not their records count.
struct Queue {
    slots: Vec<Slot>,
    /// The number of slots that the checkpoint lists.
    first: usize,
    /// The same slots.
    known: HashSet<Slot>,
    /// Records that continue it, and how long it is with them.
    continued: Vec<(RecordSeq, usize)>,
    /// The record that is looked at next.
    next: RecordSeq,
    /// What this record says of the queue is not sound.
    unsound: Option<RecordSeq>,
}

impl Queue {
    /// As the checkpoint has it.
    fn new(checkpoint: &Checkpoint) -> Queue {
        let slots: Vec<Slot> = checkpoint.queue.iter().copied().map(Slot).collect();
        Queue {
            known: slots.iter().copied().collect(),
            first: slots.len(),
            slots,
            continued: Vec::new(),
            next: checkpoint.cut.next(),
            unsound: None,
        }
    }

    /// Follows the headers that were found, one after the other, until one is missing.
    async fn follow(
        &mut self,
        place: &Place<'_>,
        found: &BTreeMap<RecordSeq, FoundRecord>,
    ) -> Result<(), DeviceError> {
        while self.unsound.is_none()
            && let Some(record) = found.get(&self.next)
        {
            match place.queue_in(record, &mut self.known).await? {
                None => self.unsound = Some(self.next),
                Some(more) if more.is_empty() => {}
                Some(more) => {
                    self.slots.extend(more);
                    self.continued.push((self.next, self.slots.len()));
                }
            }
            self.next = self.next.next();
        }
        Ok(())
    }

    /// The queue as it is with the records up to `last`.
    fn up_to(mut self, last: RecordSeq) -> Vec<Slot> {
        let behind = self
            .continued
            .partition_point(|(record, _)| *record <= last);
        if behind < self.continued.len() {
            let before = match behind.checked_sub(1) {
                Some(n) => self.continued[n].1,
                None => self.first,
            };
            self.slots.truncate(before);
        }
        self.slots
    }
}

/// What was found so far.
struct Found {
    records: BTreeMap<RecordSeq, FoundRecord>,
    cut: RecordSeq,
    /// Segments looked at since the last that shows records.
    nothing: usize,
    /// Segments that begin with something garbled, with how many were looked at before them since the last that shows records.
    garbled: Vec<(Slot, SegmentSeq)>,
}

impl Found {
    fn take(&mut self, look: Look, scan: &mut Scan) -> bool {
        scan.stable = scan.stable.max(look.stable);
        scan.bytes_read += look.bytes_read;
        let shows = !look.records.is_empty();
        let cut = self.cut;
        let new = look.records.into_iter();
        self.records.extend(new.filter(|(seq, _)| *seq > cut));
        shows
    }
}

/// The records written since `checkpoint`, as far as they are valid.
///
/// # Errors
/// The store's: what cannot be read may be needed.
pub(crate) async fn scan(
    store: &dyn SegmentStore,
    superblock: &Superblock,
    checkpoint: &Checkpoint,
    ahead: Ahead,
) -> Result<Scan, DeviceError> {
    let place = Place { store, superblock };
    let mut scan = Scan {
        records: Vec::new(),
        last: checkpoint.cut,
        stable: checkpoint.cut.max(superblock.stable),
        queue: Vec::new(),
        bytes_read: 0,
    };
    let mut queue = Queue::new(checkpoint);
    let mut found = Found {
        records: BTreeMap::new(),
        cut: checkpoint.cut,
        nothing: 0,
        garbled: Vec::new(),
    };
    let open = checkpoint.open.iter();
    let mut wanted: Vec<(Slot, SegmentSeq)> =
        open.map(|open| (Slot(open.slot), open.seq)).collect();
    let mut known = 0;
    loop {
        let new = queue.slots.iter().enumerate().skip(known);
        wanted.extend(new.map(|(n, slot)| (*slot, checkpoint.next_segment.plus(n as u64))));
        known = queue.slots.len();
        look_at(&place, &mut wanted, &mut found, &mut scan, ahead).await?;
        queue.follow(&place, &found.records).await?;
        if queue.slots.len() == known || found.nothing > ahead.looked_at {
            break;
        }
    }
    take(&place, found.records, &mut scan, queue.unsound).await?;
    scan.queue = queue.up_to(scan.last);
    Ok(scan)
}

/// Looks at segments in the order in which they were opened, as far as they may have been.
async fn look_at(
    place: &Place<'_>,
    wanted: &mut Vec<(Slot, SegmentSeq)>,
    found: &mut Found,
    scan: &mut Scan,
    ahead: Ahead,
) -> Result<(), DeviceError> {
    let looks = stream::iter(wanted.drain(..))
        .map(async |(slot, segment)| Ok(((slot, segment), place.look(slot, segment).await?)))
        .buffered(LOOKS);
    let mut looks = std::pin::pin!(looks);
    while found.nothing <= ahead.looked_at
        && let Some(look) = looks.next().await
    {
        let ((slot, segment), look): ((Slot, SegmentSeq), Look) = look?;
        if look.garbled && found.nothing <= ahead.looked_through {
            found.garbled.push((slot, segment));
        }
        // Those that were open at the cut may have got nothing since; they are few.
        let mut shows = found.take(look, scan);
        if shows {
            // Whatever stands before a segment that was opened was opened as well.
            for (slot, segment) in std::mem::take(&mut found.garbled) {
                let look = place.look_through(slot, segment).await?;
                found.take(look, scan);
            }
        } else if found.garbled.len() > ahead.looked_through {
            shows = look_through_all(place, found, scan).await?;
        }
        found.nothing = if shows { 0 } else { found.nothing + 1 };
    }
    if look_through_all(place, found, scan).await? {
        found.nothing = 0;
    }
    Ok(())
}

/// Looks through the garbled segments. True if one of them shows records.
async fn look_through_all(
    place: &Place<'_>,
    found: &mut Found,
    scan: &mut Scan,
) -> Result<bool, DeviceError> {
    let mut shows = false;
    for (slot, segment) in std::mem::take(&mut found.garbled) {
        let look = place.look_through(slot, segment).await?;
        shows |= found.take(look, scan);
    }
    Ok(shows)
}

/// Takes up records one after the other, until one is missing, not whole, or the `unsound` one.
async fn take(
    place: &Place<'_>,
    mut found: BTreeMap<RecordSeq, FoundRecord>,
    scan: &mut Scan,
    unsound: Option<RecordSeq>,
) -> Result<(), DeviceError> {
    let (mut next, mut complete) = (scan.last.next(), 0);
    while unsound != Some(next)
        && let Some(record) = found.remove(&next)
    {
        if next > scan.stable && !place.is_whole(next, &record).await? {
            break;
        }
        let ends = !record.continues;
        scan.records.push(record);
        if ends {
            complete = scan.records.len();
            scan.last = next;
        }
        next = next.next();
    }
    scan.records.truncate(complete);
    Ok(())
}
