//! Finding the records that were written since the newest checkpoint.
//!
//! Read-only, so that `check` and recovery are the same code. The checkpoint says where to look: in the
//! segments that were open at its cut, and in those of its runway, which are opened in that order and have
//! the numbers that follow; records say how the runway goes on. What is trusted and why:
//! - Records up to the highest `stable` seen anywhere were durable: a summary, or a header, is enough.
//! - A record past that is verified, header and payload; the first that is missing or fails ends the order:
//!   a torn end, which is normal.
//! - If the record at which the order ends is not past the highest `stable`, something durable is missing:
//!   that is damage, and the caller decides.
//! - A segment whose first header is neither one nor zeroes is looked through: records behind it may tell that it was
//!   durable.
//! - What cannot be read is not taken for missing: it may be readable at the next try.

use std::collections::{BTreeMap, BTreeSet};

use forebay_device::{BufMut, Device, DeviceError};
use forebay_segments::{Entry as _, Next, header_at, payload_is_sound, read_summary, walk_from};
use forebay_units::{RecordSeq, SECTOR_BYTES, SegmentSeq, round_down, round_up};
use futures_util::StreamExt;
use futures_util::stream;

use crate::format::{
    Checkpoint, Entry, HEADER_BYTES, MetaKind, Record, Superblock, Volume, decode_runway,
};
use crate::geometry::{Layout, Slot};

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
    /// The runway from the cut on, opened or not.
    pub(crate) runway: Vec<Slot>,
    /// Bytes read to find out.
    pub(crate) bytes_read: u64,
}

impl Scan {
    /// True if something that was durable is missing.
    pub(crate) fn is_damaged(&self) -> bool {
        self.last < self.stable
    }
}

/// What one segment shows.
struct Look {
    records: Vec<(RecordSeq, FoundRecord)>,
    stable: RecordSeq,
    bytes_read: u64,
}

/// Where recovery looks.
struct Place<'a> {
    device: &'a dyn Device,
    superblock: &'a Superblock,
    layout: Layout,
}

impl Place<'_> {
    /// The records in a segment, if it was opened with this number in the superblock's epoch.
    async fn look(&self, slot: Slot, segment: SegmentSeq) -> Result<Look, DeviceError> {
        let (layout, volume) = (self.layout, self.superblock.volume);
        let at = layout.slot_at(slot);
        let mut look = Look {
            records: Vec::new(),
            stable: RecordSeq(0),
            bytes_read: HEADER_BYTES as u64,
        };
        let shape = layout.shape();
        let summary = read_summary::<Volume>(self.device, at, shape, volume, segment).await?;
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
        let first = self.device.read(at, BufMut::zeroed(HEADER_BYTES)).await?;
        look.bytes_read += HEADER_BYTES as u64;
        let counts = |bytes: &[u8], at| {
            let record = header_at::<Volume>(bytes, at, volume, segment);
            record.is_some_and(|record| record.epoch == self.superblock.epoch)
        };
        if !counts(&first, 0) && !is_garbled(&first) {
            return Ok(look);
        }
        let whole = BufMut::zeroed(layout.segment_bytes as usize);
        let whole = self.device.read(at, whole).await?;
        look.bytes_read += whole.len() as u64;
        // The first is a block behind the start if the one there is garbled: then it is told by what follows whether
        // that was durable.
        let mut places = (0..whole.len()).step_by(layout.block as usize);
        let Some(start) = places.find(|at| counts(&whole, *at)) else {
            return Ok(look);
        };
        let any = Next::From(RecordSeq(1));
        for record in walk_from::<Volume>(start, &whole, layout.block, volume, segment, any) {
            look.stable = look.stable.max(record.stable);
            let found = FoundRecord {
                slot,
                segment,
                offset: record.offset,
                continues: record.continues,
                entries: record.entries,
            };
            look.records.push((record.seq, found));
        }
        Ok(look)
    }

    /// True if all of a record is there as it was written.
    async fn is_whole(&self, seq: RecordSeq, record: &FoundRecord) -> Result<bool, DeviceError> {
        let sectors: u64 = record
            .entries
            .iter()
            .map(|entry| entry.payload_sectors())
            .sum();
        let len = HEADER_BYTES as u64 + sectors * SECTOR_BYTES;
        let len = round_up(len, self.layout.block.into());
        let at = self.layout.slot_at(record.slot) + u64::from(record.offset);
        let bytes = self.device.read(at, BufMut::zeroed(len as usize)).await?;
        let header = header_at_offset(&bytes, self.superblock, record);
        let is_it = |header: Record| {
            header.seq == seq
                && header.epoch == self.superblock.epoch
                && header.entries == record.entries
        };
        Ok(header.is_some_and(is_it) && payload_is_sound(&bytes, 0, &record.entries))
    }

    /// The segments that a record puts on the runway; nothing if what it says of them is not sound.
    async fn runway_in(
        &self,
        record: &FoundRecord,
        before: &[Slot],
    ) -> Result<Option<Vec<Slot>>, DeviceError> {
        let mut at =
            self.layout.slot_at(record.slot) + u64::from(record.offset) + HEADER_BYTES as u64;
        let mut slots = Vec::new();
        for entry in &record.entries {
            let len = entry.payload_sectors() * SECTOR_BYTES;
            if let Entry::Meta {
                kind: MetaKind::Runway,
                crc,
                ..
            } = entry
            {
                let Some(more) = self.read_runway(at, len, *crc).await? else {
                    return Ok(None);
                };
                slots.extend(more.into_iter().map(Slot));
            }
            at += len;
        }
        let mut known: BTreeSet<Slot> = before.iter().copied().collect();
        let sound = |slot: &Slot| slot.0 < self.layout.segment_count && known.insert(*slot);
        Ok(slots.iter().all(sound).then_some(slots))
    }

    async fn read_runway(
        &self,
        at: u64,
        len: u64,
        crc: u32,
    ) -> Result<Option<Vec<u32>>, DeviceError> {
        let block = u64::from(self.layout.block);
        let (first, last) = (round_down(at, block), round_up(at + len, block));
        let buf = BufMut::zeroed((last - first) as usize);
        let bytes = self.device.read(first, buf).await?;
        let from = (at - first) as usize;
        let bytes = &bytes[from..from + len as usize];
        let is_sound = crc32c::crc32c(bytes) == crc;
        Ok(is_sound.then(|| decode_runway(bytes)).flatten())
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
    Record::decode(first).is_err() && first.iter().any(|byte| *byte != 0)
}

/// How far records were followed.
struct Tail {
    next: RecordSeq,
    /// So many of those that were taken up end with a whole group.
    complete: usize,
}

/// The records written since `checkpoint`, as far as they count. `ahead` is how many segments of the runway may
/// have been opened without anything of them being on the medium.
///
/// # Errors
/// The device's: what cannot be read may be needed.
pub(crate) async fn scan(
    device: &dyn Device,
    superblock: &Superblock,
    checkpoint: &Checkpoint,
    ahead: usize,
) -> Result<Scan, DeviceError> {
    let layout = Layout::of(superblock);
    let place = Place {
        device,
        superblock,
        layout,
    };
    let mut scan = Scan {
        records: Vec::new(),
        last: checkpoint.cut,
        stable: checkpoint.cut,
        runway: checkpoint.runway.iter().copied().map(Slot).collect(),
        bytes_read: 0,
    };
    let mut tail = Tail {
        next: checkpoint.cut.next(),
        complete: 0,
    };
    let open = checkpoint.open.iter();
    let mut wanted: Vec<(Slot, SegmentSeq)> =
        open.map(|open| (Slot(open.slot), open.seq)).collect();
    let (mut found, mut nothing, mut known) = (BTreeMap::new(), 0, 0);
    loop {
        let new = scan.runway.iter().enumerate().skip(known);
        wanted.extend(new.map(|(n, slot)| (*slot, checkpoint.next_segment.plus(n as u64))));
        known = scan.runway.len();
        let looks = stream::iter(wanted.drain(..))
            .map(|(slot, segment)| place.look(slot, segment))
            .buffered(LOOKS);
        let mut looks = std::pin::pin!(looks);
        while nothing <= ahead
            && let Some(look) = looks.next().await
        {
            let look = look?;
            scan.stable = scan.stable.max(look.stable);
            scan.bytes_read += look.bytes_read;
            // Those that were open at the cut may have got nothing since; they are few.
            nothing = match look.records.is_empty() {
                true => nothing + 1,
                false => 0,
            };
            let new = look.records.into_iter();
            found.extend(new.filter(|(seq, _)| *seq > checkpoint.cut));
        }
        follow(&place, &mut found, &mut scan, &mut tail).await?;
        if scan.runway.len() == known || nothing > ahead {
            scan.records.truncate(tail.complete);
            return Ok(scan);
        }
    }
}

/// Takes up records one after the other, until one is missing or not whole. It may be found yet, or be known to
/// have been durable, when more of the runway was looked at.
async fn follow(
    place: &Place<'_>,
    found: &mut BTreeMap<RecordSeq, FoundRecord>,
    scan: &mut Scan,
    tail: &mut Tail,
) -> Result<(), DeviceError> {
    while let Some(record) = found.get(&tail.next) {
        if tail.next > scan.stable && !place.is_whole(tail.next, record).await? {
            break;
        }
        let Some(runway) = place.runway_in(record, &scan.runway).await? else {
            break;
        };
        scan.runway.extend(runway);
        let record = found.remove(&tail.next).expect("looked at");
        let ends = !record.continues;
        scan.records.push(record);
        if ends {
            tail.complete = scan.records.len();
            scan.last = tail.next;
        }
        tail.next = tail.next.next();
    }
    Ok(())
}
