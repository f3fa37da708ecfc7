//! Scan: finds the records that were written since the newest checkpoint.
//!
//! The scan is read-only, so `check` and recovery use the same code. It examines the segments that were open at the
//! checkpoint's cut, and the segments of its allocation queue. These are opened in the order of the queue, with
//! consecutive numbers. Records continue the queue. Rules of trust:
//! - Records up to the highest `stable` found anywhere were durable: for them, a summary or a header is enough. No rule
//!   needs a `stable` in a summary that is missing in the headers, since a segment of few records has no summary
//!   (`headers.rs`). The superblock names the newest durable record once the volume is idle.
//! - Later records are verified, header and payload. The first record that is missing or fails ends the order. This is
//!   a torn end, which is normal.
//! - A record far behind can prove that earlier records were durable. Its segment can be on the queue only through the
//!   records in between. So all headers are followed before the payload of the first record is verified. Durable data
//!   may have been overwritten in place or be damaged, and is then not a torn end.
//! - If the order ends before the highest `stable`, durable data is missing. This is damage, and the caller decides.
//! - A segment whose first bytes are neither a header nor zeroes is searched if it may have been opened: later records
//!   in it may prove that the first record was durable. On a device with other old contents, most segments begin with
//!   such bytes. So behind the last segment with records, the number of searched segments is limited to those that
//!   memory could hold.
//! - Unreadable data does not count as missing: it may be readable at the next try.

use std::collections::{BTreeMap, HashSet};

use forebay_device::{DeviceError, is_zero};
use forebay_segment_log::{RecordEntry, payload_is_sound};
use forebay_units::{RecordSeq, SECTOR_BYTES, SegmentSeq, round_up};
use futures_util::StreamExt;
use futures_util::stream;

use crate::format::{
    Checkpoint, HEADER_BYTES, MetaKind, SpaceEntry, SpaceRecord, SpaceSuperblock, decode_queue,
};
use crate::geometry::{SegmentLayout, SegmentSlot};
use crate::headers::HeaderReader;
use crate::recover::QueueLookahead;
use crate::store::{SegmentStore, read_checked, read_summary};

/// Number of segments that are read concurrently.
const LOOKS: usize = 32;

/// A record that was written since the checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct FoundRecord {
    pub(crate) slot: SegmentSlot,
    pub(crate) segment: SegmentSeq,
    pub(crate) offset: u32,
    pub(crate) continues: bool,
    pub(crate) entries: Vec<SpaceEntry>,
}

/// The records that were written since a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct RecoveryScan {
    /// The valid records in order, from the first record behind the cut on.
    pub(crate) records: Vec<FoundRecord>,
    /// The last valid record.
    pub(crate) last: RecordSeq,
    /// The newest record known to have been durable.
    pub(crate) stable: RecordSeq,
    /// The allocation queue from the cut on, with opened and unopened segments.
    pub(crate) queue: Vec<SegmentSlot>,
    /// Bytes read by the scan.
    pub(crate) bytes_read: u64,
}

impl RecoveryScan {
    /// Returns true if durable data is missing.
    pub(crate) fn is_damaged(&self) -> bool {
        self.last < self.stable
    }

    /// Returns a number higher than all numbers given to segments since the checkpoint.
    ///
    /// The segments of the allocation queue have numbers, opened or not. A lost record may have continued the queue.
    /// Segments that were opened through such a record have no durable record, so all of them were in memory at once.
    /// If durable records are missing, the queue is unknown. But records behind the checkpoint keep their segments from
    /// being used again, so each slot was opened at most once.
    pub(crate) fn behind_all(&self, checkpoint: &Checkpoint, layout: &SegmentLayout) -> SegmentSeq {
        let slots = u64::from(layout.segment_count);
        let given = if self.is_damaged() {
            slots
        } else {
            slots.min((self.queue.len() + layout.in_memory_max()) as u64)
        };
        checkpoint.next_segment.plus(given)
    }
}

/// The records found in one segment.
struct SlotScan {
    records: Vec<(RecordSeq, FoundRecord)>,
    stable: RecordSeq,
    bytes_read: u64,
    /// The first bytes of the segment are neither a record nor zeroes.
    garbled: bool,
}

/// The volume to scan.
struct ScannedVolume<'a> {
    store: &'a dyn SegmentStore,
    superblock: &'a SpaceSuperblock,
}

impl ScannedVolume<'_> {
    /// Returns the records in a segment, if it was opened with this number in the superblock's epoch.
    async fn look(&self, slot: SegmentSlot, segment: SegmentSeq) -> Result<SlotScan, DeviceError> {
        let volume = self.superblock.volume;
        let mut look = SlotScan {
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

    fn headers(&self, slot: SegmentSlot, segment: SegmentSeq) -> HeaderReader<'_> {
        let superblock = self.superblock;
        let epoch = Some(superblock.epoch);
        HeaderReader::new(self.store, superblock.volume, slot, segment, epoch)
    }

    /// Searches a segment with a garbled first header for records. Later records show whether the first record was
    /// durable.
    async fn look_through(
        &self,
        slot: SegmentSlot,
        segment: SegmentSeq,
    ) -> Result<SlotScan, DeviceError> {
        let mut look = SlotScan {
            records: Vec::new(),
            stable: RecordSeq(0),
            bytes_read: 0,
            garbled: true,
        };
        self.follow(self.headers(slot, segment), &mut look).await?;
        Ok(look)
    }

    /// Adds the records of a segment to `look`.
    async fn follow(
        &self,
        mut headers: HeaderReader<'_>,
        look: &mut SlotScan,
    ) -> Result<(), DeviceError> {
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

    /// Returns true if the header and payload of a record are intact.
    async fn is_whole(&self, seq: RecordSeq, record: &FoundRecord) -> Result<bool, DeviceError> {
        let sectors: u64 = record
            .entries
            .iter()
            .map(RecordEntry::payload_sectors)
            .sum();
        let len = HEADER_BYTES as u64 + sectors * SECTOR_BYTES;
        let len = round_up(len, self.store.layout().block.into());
        let from = u64::from(record.offset);
        let is_whole = |bytes: &[u8]| {
            let header = header_at_offset(bytes, self.superblock, record);
            let is_it = |header: SpaceRecord| {
                header.seq == seq
                    && header.epoch == self.superblock.epoch
                    && header.entries == record.entries
            };
            header.is_some_and(is_it) && payload_is_sound(bytes, 0, &record.entries)
        };
        read_checked(self.store, record.slot, from..from + len, is_whole).await
    }

    /// Returns the segments that a record adds to the allocation queue. `None` if its list is damaged, names a slot
    /// beyond the volume, or names a slot that is in `known`.
    async fn queue_in(
        &self,
        record: &FoundRecord,
        known: &mut HashSet<SegmentSlot>,
    ) -> Result<Option<Vec<SegmentSlot>>, DeviceError> {
        let mut at = u64::from(record.offset) + HEADER_BYTES as u64;
        let mut slots = Vec::new();
        for entry in &record.entries {
            let len = entry.payload_sectors() * SECTOR_BYTES;
            if let SpaceEntry::Meta {
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
                slots.extend(more.into_iter().map(SegmentSlot));
            }
            at += len;
        }
        let count = self.store.layout().segment_count;
        let sound = |slot: &SegmentSlot| slot.0 < count && known.insert(*slot);
        Ok(slots.iter().all(sound).then_some(slots))
    }
}

/// Returns the header at the start of `bytes`, if it belongs to the place of `record`.
fn header_at_offset(
    bytes: &[u8],
    superblock: &SpaceSuperblock,
    record: &FoundRecord,
) -> Option<SpaceRecord> {
    let header = SpaceRecord::decode(bytes.get(..HEADER_BYTES)?).ok()?;
    let here = header.volume == superblock.volume
        && header.segment == record.segment
        && header.offset == record.offset;
    here.then_some(header)
}

/// Returns true for a torn or damaged header, and for other old contents: neither a record nor zeroes.
fn is_garbled(first: &[u8]) -> bool {
    SpaceRecord::decode(first).is_err() && !is_zero(first)
}

/// The allocation queue from the cut on, according to headers. Their records may be invalid.
struct ScannedQueue {
    slots: Vec<SegmentSlot>,
    /// Number of slots in the checkpoint's list.
    first: usize,
    /// Set of the slots in `slots`.
    known: HashSet<SegmentSlot>,
    /// Records that continue the queue, each with the length of the queue including this record.
    continued: Vec<(RecordSeq, usize)>,
    /// The next record to follow.
    next: RecordSeq,
    /// The first record whose list of slots is not valid.
    unsound: Option<RecordSeq>,
}

impl ScannedQueue {
    /// Creates the queue of the checkpoint.
    fn new(checkpoint: &Checkpoint) -> ScannedQueue {
        let slots: Vec<SegmentSlot> = checkpoint.queue.iter().copied().map(SegmentSlot).collect();
        ScannedQueue {
            known: slots.iter().copied().collect(),
            first: slots.len(),
            slots,
            continued: Vec::new(),
            next: checkpoint.cut.next(),
            unsound: None,
        }
    }

    /// Follows the found headers in order, until a header is missing.
    async fn follow(
        &mut self,
        place: &ScannedVolume<'_>,
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

    /// Returns the queue including the records up to `last`.
    fn up_to(mut self, last: RecordSeq) -> Vec<SegmentSlot> {
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

/// The results so far.
struct ScanProgress {
    records: BTreeMap<RecordSeq, FoundRecord>,
    cut: RecordSeq,
    /// Number of segments examined since the last segment with records.
    nothing: usize,
    /// Segments since the last segment with records whose first bytes are garbled.
    garbled: Vec<(SegmentSlot, SegmentSeq)>,
}

impl ScanProgress {
    fn take(&mut self, look: SlotScan, scan: &mut RecoveryScan) -> bool {
        scan.stable = scan.stable.max(look.stable);
        scan.bytes_read += look.bytes_read;
        let shows = !look.records.is_empty();
        let cut = self.cut;
        let new = look.records.into_iter();
        self.records.extend(new.filter(|(seq, _)| *seq > cut));
        shows
    }
}

/// Returns the valid records that were written since `checkpoint`.
///
/// # Errors
/// The store's: unreadable data may be needed.
pub(crate) async fn scan(
    store: &dyn SegmentStore,
    superblock: &SpaceSuperblock,
    checkpoint: &Checkpoint,
    ahead: QueueLookahead,
) -> Result<RecoveryScan, DeviceError> {
    let place = ScannedVolume { store, superblock };
    let mut scan = RecoveryScan {
        records: Vec::new(),
        last: checkpoint.cut,
        stable: checkpoint.cut.max(superblock.stable),
        queue: Vec::new(),
        bytes_read: 0,
    };
    let mut queue = ScannedQueue::new(checkpoint);
    let mut found = ScanProgress {
        records: BTreeMap::new(),
        cut: checkpoint.cut,
        nothing: 0,
        garbled: Vec::new(),
    };
    let open = checkpoint.open.iter();
    let mut wanted: Vec<(SegmentSlot, SegmentSeq)> = open
        .map(|open| (SegmentSlot(open.slot), open.seq))
        .collect();
    let mut known = 0;
    loop {
        let new = queue.slots.iter().enumerate().skip(known);
        wanted.extend(new.map(|(n, slot)| (*slot, checkpoint.next_segment.plus(n as u64))));
        known = queue.slots.len();
        look_at(&place, &mut wanted, &mut found, &mut scan, ahead).await?;
        queue.follow(&place, &found.records).await?;
        if queue.slots.len() == known || found.nothing > ahead.read_headers_max {
            break;
        }
    }
    take(&place, found.records, &mut scan, queue.unsound).await?;
    scan.queue = queue.up_to(scan.last);
    Ok(scan)
}

/// Examines segments in the order in which they were opened, as far as they can have been opened.
async fn look_at(
    place: &ScannedVolume<'_>,
    wanted: &mut Vec<(SegmentSlot, SegmentSeq)>,
    found: &mut ScanProgress,
    scan: &mut RecoveryScan,
    ahead: QueueLookahead,
) -> Result<(), DeviceError> {
    let looks = stream::iter(wanted.drain(..))
        .map(async |(slot, segment)| Ok(((slot, segment), place.look(slot, segment).await?)))
        .buffered(LOOKS);
    let mut looks = std::pin::pin!(looks);
    while found.nothing <= ahead.read_headers_max
        && let Some(look) = looks.next().await
    {
        let ((slot, segment), look): ((SegmentSlot, SegmentSeq), SlotScan) = look?;
        if look.garbled && found.nothing <= ahead.looked_through {
            found.garbled.push((slot, segment));
        }
        // Segments that were open at the cut may have received no records since. Only few segments were open.
        let mut shows = found.take(look, scan);
        if shows {
            // All segments before an opened segment were opened as well.
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

/// Searches the garbled segments. Returns true if one of them has records.
async fn look_through_all(
    place: &ScannedVolume<'_>,
    found: &mut ScanProgress,
    scan: &mut RecoveryScan,
) -> Result<bool, DeviceError> {
    let mut shows = false;
    for (slot, segment) in std::mem::take(&mut found.garbled) {
        let look = place.look_through(slot, segment).await?;
        shows |= found.take(look, scan);
    }
    Ok(shows)
}

/// Takes records in order, until a record is missing, damaged, or the `unsound` record.
async fn take(
    place: &ScannedVolume<'_>,
    mut found: BTreeMap<RecordSeq, FoundRecord>,
    scan: &mut RecoveryScan,
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
