//! I1, I2, I3 and the epochs from the outside: the writes to the log device, their order, and the data that they
//! replace.
//!
//! The checker decodes records and superblocks from the requests. So its knowledge begins with the observed
//! incarnation.

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

/// Change of a sector by a record.
#[derive(Clone, Debug)]
enum SectorChange {
    Data(Buf),
    Zero,
    /// A change that leaves no expected content on the data device.
    Other,
}

/// Changes of a record, sector by sector.
type RecordChanges = Vec<(u64, SectorChange)>;

/// A record in a write request.
struct WireRecord {
    segment: u64,
    offset: u32,
    /// End of the record in its segment, in bytes.
    end: u32,
    epoch: u64,
    changes: RecordChanges,
    /// True if the write completed successfully.
    written: bool,
    durable: bool,
}

#[derive(Default)]
struct SegmentHistory {
    /// The two durable superblocks of the device, if observed.
    superblocks: [Option<RingSuperblock>; 2],
    records: BTreeMap<u64, WireRecord>,
    /// Records by the request that writes them.
    under_way: BTreeMap<u64, Vec<u64>>,
    /// Written records at the time of a flush request, by flush.
    flushes: BTreeMap<u64, Vec<u64>>,
    /// True if a write or a flush of the log device failed. The log has then failed, and all data goes directly to the
    /// data device.
    failed: bool,
}

/// Observer of the log device in one incarnation.
pub(super) struct SegmentChecker {
    known: RefCell<SegmentHistory>,
    data: Rc<SimDisk>,
}

fn wrong(checker: &'static str, what: String) -> Violation {
    Violation::new(checker, what)
}

/// Returns the records in a write to the segments, each with its position in the write and its changes. The summary of
/// the previous segment may precede a record.
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
                    known.send(&record, changes, request.id, at)
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

    /// Checks a superblock before its write: the segments behind its tail contain only data that is durable on the data
    /// device, or that durable data replaces (I2).
    fn tail_moves(
        &self,
        known: &SegmentHistory,
        superblock: &RingSuperblock,
    ) -> Result<(), Violation> {
        // Recovery never applies an abandoned log. Its data is on the data device, or was replaced there directly.
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
                // A record that leaves the log with this tail proves nothing about older records. Such a record has its
                // own check.
                if sent.durable || sent.segment < tail {
                    replaced.insert(*sector);
                }
            }
        }
        for (seq, sector, change) in left {
            let at = sector * SECTOR as u64;
            let home = self.data.durable(at..at + SECTOR as u64);
            // Zeroes and discards after the failure of the log have no record that this checker could observe.
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

    /// Returns true if the data device contains this change or a newer change.
    fn is_home(&self, change: &SectorChange, home: &[u8]) -> bool {
        match change {
            SectorChange::Other => true,
            SectorChange::Zero => {
                read_sector(home) == SectorContent::Zero || self.is_newer(home, None)
            }
            SectorChange::Data(bytes) => home[..] == bytes[..] || self.is_newer(home, Some(bytes)),
        }
    }

    /// Returns true if the data device contains data that was written later and bypassed the log.
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
    /// Checks a record before its write by `request` at byte `at` of the device. The records must be in order.
    fn send(
        &mut self,
        record: &RingRecord,
        changes: RecordChanges,
        request: u64,
        at: u64,
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

    /// Checks the offset of a record before its write.
    ///
    /// The record must directly follow the previous record, or a rotational offset after that record. An offset
    /// requires that both durable superblocks announce offsets. Otherwise a program that does not know offsets would
    /// take the previous record for the last.
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

    /// Checks a record before its write. The record must have its place in the order (I1) and the epoch of the
    /// superblocks. Its segment must be free according to both superblocks (I3).
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
