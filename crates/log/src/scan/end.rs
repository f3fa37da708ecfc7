//! Where the chain ends: what is missing there, and what lies beyond that must never be taken up.

use std::collections::VecDeque;

use forebay_device::{BufMut, DeviceError};
use forebay_units::{SECTOR_BYTES, Sector, SegmentSeq};

use super::peek::{Peek, header_at};
use super::{Damage, Scan, Scanner};
use crate::format::{Entry, HEADER_BYTES, Record, Summary, Superblock};
use crate::state::UNSTABLE_SEGMENTS_MAX;

/// Where the chain stopped.
pub(super) struct End {
    pub(super) segment: SegmentSeq,
    pub(super) offset: u32,
    /// The whole segment, if it was read.
    pub(super) bytes: Option<BufMut>,
    /// What stands there could not be read.
    pub(super) unreadable: bool,
}

impl End {
    /// The chain ends with the segment before this one.
    pub(super) fn nowhere(segment: SegmentSeq) -> End {
        End {
            segment,
            offset: 0,
            bytes: None,
            unreadable: false,
        }
    }
}

impl Scanner<'_> {
    /// What was found, once the chain has ended.
    pub(super) async fn finish(
        mut self,
        end: End,
        ahead: VecDeque<Peek>,
    ) -> Result<Scan, DeviceError> {
        let damage = self.damage(end, &ahead).await;
        // A write that is not whole is not applied at all: the chain ends before its first record.
        if let Some(first) = self.pending.first() {
            self.expected = first.seq;
        }
        let mut seal = None;
        let mut next_segment = self.superblock.tail.plus(self.firsts.len() as u64);
        while let Some(mut last) = self.recent.pop_back() {
            let keep = self.expected.since(last.first) as usize;
            if keep == 0 {
                self.firsts.pop_back();
                next_segment = last.segment;
                continue;
            }
            if keep < last.records.len() || !last.summarised {
                last.records.truncate(keep);
                seal = Some(Summary {
                    volume: self.superblock.volume,
                    epoch: last.epoch,
                    segment: last.segment,
                    first: last.first,
                    stable: self.expected.prev(),
                    records: last.records,
                });
            }
            break;
        }
        let wipe_end = next_segment.plus(UNSTABLE_SEGMENTS_MAX);
        let ring_end = self.superblock.tail.plus(self.ring.segment_count);
        let mut leftovers = Vec::new();
        let mut segment = next_segment;
        while segment < wipe_end.min(ring_end) {
            let seen = ahead.iter().find(|peeked| peeked.segment == segment);
            if !seen.is_some_and(Peek::is_empty) {
                leftovers.push(segment);
            }
            segment = segment.next();
        }
        Ok(Scan {
            epoch: self.epoch,
            next_segment,
            next_record: self.expected,
            records: self.records,
            stable: self.stable,
            damage,
            bytes_read: self.bytes_read,
            summaries_lost: self.summaries_lost,
            firsts: self.firsts,
            seal,
            leftovers,
        })
    }

    /// Every header of this life in a segment from byte `from` on, wherever it stands.
    fn headers(&self, bytes: &[u8], segment: SegmentSeq, from: usize) -> Vec<Record> {
        let Superblock {
            volume,
            epoch,
            epoch_segment,
            ..
        } = *self.superblock;
        (from..bytes.len())
            .step_by(self.ring.block as usize)
            .filter_map(|at| header_at(bytes, at, volume, segment))
            .filter(|record| segment < epoch_segment || record.epoch >= epoch)
            .filter(|record| record.epoch >= self.chain_epoch)
            .collect()
    }

    /// Whether the record at which the chain ends was durable once.
    async fn damage(&mut self, end: End, ahead: &VecDeque<Peek>) -> Option<Damage> {
        let missing = self
            .pending
            .first()
            .map_or(self.expected, |record| record.seq);
        let mut later = Vec::new();
        let mut stable = self.stable;
        let ring_end = self.superblock.tail.plus(self.ring.segment_count);
        let here = end.segment < ring_end;
        let bytes = match end.bytes {
            Some(bytes) => Some(bytes),
            None if here => Some(self.load(end.segment).await),
            None => None,
        };
        let mut headers = Vec::new();
        if let Some(bytes) = bytes {
            headers.extend(self.headers(&bytes, end.segment, end.offset as usize));
            let next = end.segment.next();
            // Only where something of this life lies further on is the next segment read whole.
            let more = ahead
                .iter()
                .any(|p| p.segment > end.segment && p.has_something());
            if next < ring_end && (more || !headers.is_empty()) {
                let bytes = self.load(next).await;
                headers.extend(self.headers(&bytes, next, 0));
            }
        }
        for record in headers.iter().filter(|record| record.seq >= missing) {
            stable = stable.max(record.stable);
            later.extend(record.entries.iter().map(written_range));
        }
        for summary in ahead.iter().filter_map(|peeked| peeked.summary.as_ref()) {
            let entries = summary.records.iter().flat_map(|record| &record.entries);
            later.extend(entries.map(written_range));
        }
        self.stable = stable;
        // Nothing was in a log that was stopped clean, whatever of it cannot be read today, and
        // whatever leftovers say: that superblock is newer than all of them.
        let in_use = !self.superblock.clean;
        let unreadable = end.unreadable && in_use;
        let evidence = self.unread_evidence(end.segment, end.offset, ahead);
        let evidence_unread = evidence.filter(|_| in_use && missing > stable && !unreadable);
        let damaged = in_use && missing <= stable || unreadable || evidence_unread.is_some();
        damaged.then_some(Damage {
            record: missing,
            segment: end.segment,
            offset: end.offset,
            stable,
            unreadable,
            evidence_unread,
            later: joined(later),
        })
    }

    /// The first segment that may say in a place that cannot be read that more was durable: at one of
    /// its ends, or, where it was read whole, anywhere behind the end of the chain.
    fn unread_evidence(
        &self,
        end: SegmentSeq,
        offset: u32,
        ahead: &VecDeque<Peek>,
    ) -> Option<SegmentSeq> {
        let at_ends = ahead.iter().filter(|peeked| peeked.unreadable);
        let block = HEADER_BYTES as u32;
        let behind = |(segment, at): &&(SegmentSeq, u32)| (*segment, at + block) > (end, offset);
        let blocks = self.unreadable.iter().filter(behind);
        at_ends
            .map(|peeked| peeked.segment)
            .chain(blocks.map(|(segment, _)| *segment))
            .min()
    }
}

fn written_range(entry: &Entry) -> (Sector, u64) {
    match entry {
        Entry::Data {
            sector, sectors, ..
        } => (*sector, u64::from(*sectors)),
        Entry::Range {
            sector, sectors, ..
        } => (*sector, *sectors),
    }
}

/// The ranges in order, those that touch or overlap made one.
fn joined(mut ranges: Vec<(Sector, u64)>) -> Vec<(Sector, u64)> {
    ranges.sort_unstable();
    let mut out: Vec<(Sector, u64)> = Vec::new();
    for (start, sectors) in ranges {
        match out.last_mut() {
            Some((first, count)) if start.0 <= first.0 + *count => {
                *count = (*count).max(start.0.saturating_add(sectors) - first.0);
            }
            _ => out.push((start, sectors)),
        }
    }
    out
}

/// Ranges named in an error's text; the others are counted.
const NAMED: usize = 8;

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Damage {
            record,
            segment,
            offset,
            stable,
            unreadable,
            evidence_unread,
            later,
        } = self;
        if let Some(unread) = evidence_unread {
            return write!(
                f,
                "the log seems to end before {record}, at byte {offset} of {segment}, but {unread} \
                 cannot be read where it may say that more was flushed (it may be readable later)"
            );
        }
        let what = match (unreadable, record <= stable) {
            (false, _) => "is missing or broken, though it was flushed",
            (true, true) => "cannot be read, and it was flushed",
            (true, false) => "cannot be read (it may be readable later), and may have been flushed",
        };
        write!(
            f,
            "{record} at byte {offset} of {segment} {what} (up to {stable} all were); what it wrote \
             cannot be told"
        )?;
        if later.is_empty() {
            return Ok(());
        }
        write!(
            f,
            ", and what was written after it cannot be applied without it: bytes "
        )?;
        for (n, (start, sectors)) in later.iter().take(NAMED).enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            let end = start
                .0
                .saturating_add(*sectors)
                .saturating_mul(SECTOR_BYTES);
            write!(f, "{comma}{}..{end}", start.0.saturating_mul(SECTOR_BYTES))?;
        }
        if later.len() > NAMED {
            write!(f, " and {} more ranges", later.len() - NAMED)?;
        }
        Ok(())
    }
}
