//! I1, I2, I3 and the epochs from the outside: what is written to the log device, in which order, and
//! what it replaces.
//!
//! Reads the records and superblocks off the wire, so it knows of nothing that was written before the
//! life it watches.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forebay_device::{Buf, DeviceOp};
use forebay_ring_log::{
    HEADER_BYTES, RangeKind, RingEntry, RingRecord, RingSuperblock, SEGMENTS_AT, SUPERBLOCK_A_AT,
    SUPERBLOCK_B_AT,
};

use forebay_sim::Violation;
use forebay_sim::disk::{DiskRequest, SimDisk};
use forebay_sim::stamp::{BEFORE, SECTOR, SectorContent, read_sector};

/// What a record did to a sector.
#[derive(Clone, Debug)]
enum SectorChange {
    Data(Buf),
    Zero,
    /// Nothing that could be looked for at home.
    Other,
}

/// What a record did, sector by sector.
type RecordChanges = Vec<(u64, SectorChange)>;

/// A record seen on the wire.
struct WireRecord {
    segment: u64,
    offset: u32,
    /// Where in the segment it ends, in bytes.
    end: u32,
    epoch: u64,
    changes: RecordChanges,
    /// Its write has ended well.
    written: bool,
    durable: bool,
}

#[derive(Default)]
struct SegmentHistory {
    /// The two superblocks as durable on the device, as far as seen.
    superblocks: [Option<RingSuperblock>; 2],
    records: BTreeMap<u64, WireRecord>,
    /// Records by the request that carries them.
    under_way: BTreeMap<u64, Vec<u64>>,
    /// Records that were written when a flush was issued, by the flush.
    flushes: BTreeMap<u64, Vec<u64>>,
    /// A write or a flush of the log device has failed, and so the log: from then on all goes home directly.
    failed: bool,
}

/// Follows the log device of one life.
pub(super) struct SegmentChecker {
    known: RefCell<SegmentHistory>,
    data: Rc<SimDisk>,
}

fn wrong(checker: &'static str, what: String) -> Violation {
    Violation::new(checker, what)
}

/// The records that a write to the segments holds: where in it, and with the bytes of what they write. A
/// summary may come before a record, that of the segment before.
fn records(bytes: &Buf) -> Vec<(usize, RingRecord, RecordChanges)> {
    let (mut at, mut out) = (0, Vec::new());
    while let Some(header) = bytes.get(at..at + HEADER_BYTES) {
        let Ok(record) = RingRecord::decode(header) else {
            at += SECTOR;
            continue;
        };
        let begins = at;
        at += HEADER_BYTES;
        let end = at + record.payload_bytes as usize;
        if end > bytes.len() {
            break;
        }
        let mut changes = Vec::new();
        let mut from = at;
        for entry in &record.entries {
            match *entry {
                RingEntry::Data {
                    sector, sectors, ..
                } => {
                    for sector in sector.0..sector.0 + u64::from(sectors) {
                        changes
                            .push((sector, SectorChange::Data(bytes.slice(from..from + SECTOR))));
                        from += SECTOR;
                    }
                }
                RingEntry::Range {
                    kind,
                    sector,
                    sectors,
                } => {
                    let change = if matches!(kind, RangeKind::Zero | RangeKind::Unmap) {
                        SectorChange::Zero
                    } else {
                        SectorChange::Other
                    };
                    let all = sector.0..sector.0 + sectors;
                    changes.extend(all.map(|sector| (sector, change.clone())));
                }
            }
        }
        at = end;
        out.push((begins, record, changes));
    }
    out
}

impl SegmentChecker {
    pub(super) fn new(data: &Rc<SimDisk>) -> SegmentChecker {
        SegmentChecker {
            known: RefCell::default(),
            data: Rc::clone(data),
        }
    }

    pub(super) fn issued(&self, request: &DiskRequest) -> Result<(), Violation> {
        let mut known = self.known.borrow_mut();
        match (&request.bytes, request.op) {
            (Some(bytes), DeviceOp::Write) if request.range.start >= SEGMENTS_AT => {
                let mut records = records(bytes).into_iter();
                records.try_for_each(|(at, record, changes)| {
                    let at = request.range.start + at as u64;
                    known.send(&record, changes, (request.id, at))
                })
            }
            (Some(bytes), DeviceOp::Write) => match RingSuperblock::decode(bytes) {
                Ok(superblock) => self.tail_moves(&known, &superblock),
                Err(_) => Ok(()),
            },
            (_, DeviceOp::Flush) => {
                let written = known
                    .records
                    .iter()
                    .filter(|(_, sent)| sent.written && !sent.durable);
                let written = written.map(|(seq, _)| *seq).collect();
                known.flushes.insert(request.id, written);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn ended(&self, request: &DiskRequest, failed: bool) {
        let mut known = self.known.borrow_mut();
        let SegmentHistory {
            superblocks,
            records,
            under_way,
            flushes,
            failed: log_failed,
        } = &mut *known;
        let sent = under_way.remove(&request.id).unwrap_or_default();
        let covered = flushes.remove(&request.id).unwrap_or_default();
        if failed {
            *log_failed |= request.op != DeviceOp::Read;
            return;
        }
        for seq in sent {
            if let Some(sent) = records.get_mut(&seq) {
                sent.written = true;
                sent.durable |= request.fua;
            }
        }
        for seq in covered {
            if let Some(sent) = records.get_mut(&seq) {
                sent.durable = true;
            }
        }
        let copy = [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT]
            .iter()
            .position(|at| *at == request.range.start);
        if let (Some(copy), Some(bytes), DeviceOp::Write) = (copy, &request.bytes, request.op) {
            superblocks[copy] = RingSuperblock::decode(bytes).ok();
        }
    }

    /// A superblock is to be written: what its tail leaves behind is durably home, or replaced by what
    /// is durable (I2).
    fn tail_moves(
        &self,
        known: &SegmentHistory,
        superblock: &RingSuperblock,
    ) -> Result<(), Violation> {
        // A log that is given up is never applied; what it held is home, or replaced there directly.
        if superblock.abandoned {
            return Ok(());
        }
        let tail = superblock.tail.0;
        let mut replaced: BTreeSet<u64> = BTreeSet::new();
        let mut left: Vec<(u64, u64, &SectorChange)> = Vec::new();
        for (seq, sent) in known.records.iter().rev() {
            for (sector, change) in sent.changes.iter().rev() {
                if sent.segment < tail && !replaced.contains(sector) {
                    left.push((*seq, *sector, change));
                }
                // What is to leave with it vouches for nothing; but then it is looked at itself.
                if sent.durable || sent.segment < tail {
                    replaced.insert(*sector);
                }
            }
        }
        for (seq, sector, change) in left {
            let at = sector * SECTOR as u64;
            let home = self.data.durable(at..at + SECTOR as u64);
            // What was zeroed or discarded later, and was not in the log, is no change that it knows of.
            let zeroed = known.failed && read_sector(&home) == SectorContent::Zero;
            if !zeroed && !self.is_home(change, &home) {
                let text = format!(
                    "the tail moves to segment {tail}, past record {seq}, whose sector {sector} is not \
                     durably home ({:?} is) nor replaced by anything durable",
                    read_sector(&home)
                );
                return Err(wrong("reuse (I2)", text));
            }
        }
        Ok(())
    }

    /// True if home is as the change made it, or newer.
    fn is_home(&self, change: &SectorChange, home: &[u8]) -> bool {
        match change {
            SectorChange::Other => true,
            SectorChange::Zero => {
                read_sector(home) == SectorContent::Zero || self.is_newer(home, None)
            }
            SectorChange::Data(bytes) => home[..] == bytes[..] || self.is_newer(home, Some(bytes)),
        }
    }

    /// True if home has something written later, past the log.
    fn is_newer(&self, home: &[u8], logged: Option<&Buf>) -> bool {
        let id = |bytes: &[u8]| match read_sector(bytes) {
            SectorContent::Stamp { id, .. } if id != BEFORE => Some(id),
            _ => None,
        };
        let home = id(home);
        home.is_some() && home > logged.and_then(|bytes| id(bytes))
    }
}

impl SegmentHistory {
    /// A record is to be written, by a request at a byte of the device, which must be in order.
    fn send(
        &mut self,
        record: &RingRecord,
        changes: RecordChanges,
        (request, at): (u64, u64),
    ) -> Result<(), Violation> {
        self.follows(record, at)?;
        let seq = record.seq.0;
        let sent = WireRecord {
            segment: record.segment.0,
            offset: record.offset,
            end: record.offset + HEADER_BYTES as u32 + record.payload_bytes,
            epoch: record.epoch.0,
            changes,
            written: false,
            durable: false,
        };
        self.records.insert(seq, sent);
        self.under_way.entry(request).or_default().push(seq);
        Ok(())
    }

    /// A record is to be written: right behind the one before it, or further on, and then both superblocks say
    /// durably that there may be gaps. Else a program that knows of none would take that one for the last.
    fn is_behind_a_gap_that_may_be(&self, record: &RingRecord) -> Result<(), Violation> {
        let before = record.seq.0.checked_sub(1);
        let Some(before) = before.and_then(|seq| self.records.get(&seq)) else {
            return Ok(());
        };
        let goes_on = before.segment == record.segment.0;
        let at = if goes_on { before.end } else { 0 };
        let copies = self.superblocks.iter().flatten();
        let may_be = goes_on && copies.clone().count() == 2 && copies.clone().all(|copy| copy.gaps);
        if record.offset == at || may_be && record.offset > at {
            return Ok(());
        }
        let text = format!(
            "record {} is written at {} of its segment, the one before it ends at {at}",
            record.seq.0, record.offset
        );
        Err(wrong("gaps (I1)", text))
    }

    /// A record is to be written: it has its place in the order (I1), in the epoch that the
    /// superblocks name, and its segment is free in both of them (I3).
    fn follows(&self, record: &RingRecord, at: u64) -> Result<(), Violation> {
        let (seq, segment) = (record.seq.0, record.segment.0);
        let place = (segment, record.offset);
        let before = self.records.range(..seq).next_back();
        let after = self.records.range(seq..).next();
        let fits = before.is_none_or(|(_, sent)| {
            (sent.segment, sent.offset) < place && sent.epoch <= record.epoch.0
        }) && after.is_none_or(|(other, sent)| {
            *other != seq && place < (sent.segment, sent.offset) && record.epoch.0 <= sent.epoch
        });
        if !fits {
            let text = format!(
                "record {seq} in {place:?} of epoch {} does not fit its neighbours",
                record.epoch.0
            );
            return Err(wrong("order (I1)", text));
        }
        self.is_behind_a_gap_that_may_be(record)?;
        for copy in self.superblocks.iter().flatten() {
            let slot = SEGMENTS_AT + segment % copy.segment_count * u64::from(copy.segment_bytes);
            if at != slot + u64::from(record.offset) {
                let text = format!("record {seq} of segment {segment} is written at {at}");
                return Err(wrong("order (I1)", text));
            }
            if record.epoch != copy.epoch || segment < copy.epoch_segment.0 {
                let text = format!(
                    "record {seq} has {} in segment {segment}, and a superblock says {} from segment {}",
                    record.epoch, copy.epoch, copy.epoch_segment.0
                );
                return Err(wrong("epoch (I4)", text));
            }
            if segment >= copy.tail.0 + copy.segment_count {
                let text = format!(
                    "record {seq} overwrites segment {}, and a superblock says that the tail is {}",
                    segment - copy.segment_count,
                    copy.tail.0
                );
                return Err(wrong("tail (I3)", text));
            }
        }
        Ok(())
    }
}
