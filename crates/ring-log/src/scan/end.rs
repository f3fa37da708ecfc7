//! End of the chain: missing records, and leftovers beyond the end that must never be recovered.

use std::collections::VecDeque;

use forebay_device::DeviceError;
use forebay_segment_log::header_at;
use forebay_units::{Sector, SegmentSeq};

use super::chain::{ChainEnd, ChainScanner};
use super::found::{ChainDamage, ScanReport};
use super::peek::SegmentPeek;
use crate::format::{HEADER_BYTES, RingEntry, RingRecord, RingSummary, RingSuperblock};
use crate::state::UNSTABLE_SEGMENTS_MAX;

impl ChainScanner<'_> {
    /// Returns the result of the scan, after the chain has ended.
    pub(super) async fn finish(
        mut self,
        end: ChainEnd,
        ahead: VecDeque<SegmentPeek>,
    ) -> Result<ScanReport, DeviceError> {
        let headers = self.headers_beyond(&end, &ahead).await;
        let damage = self.damage(&end, &headers, &ahead);
        // An incomplete write is not applied at all: the chain ends before its first record.
        if let Some(first) = self.pending.first() {
            self.expected = first.seq;
        }
        let (next_segment, seal) = self.cut();
        let behind = match &seal {
            Some(seal) => self.behind(seal, &end).await,
            None => Vec::new(),
        };
        let leftovers = self.leftovers(next_segment, &ahead);
        Ok(ScanReport {
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
            behind,
            leftovers,
        })
    }

    /// Removes accepted records beyond the end. Returns the segment after the last one in the chain, and the summary
    /// with which the last segment must be sealed.
    fn cut(&mut self) -> (SegmentSeq, Option<RingSummary>) {
        let mut next_segment = self.superblock.tail.plus(self.firsts.len() as u64);
        while let Some(mut last) = self.recent.pop_back() {
            let keep = self.expected.since(last.first) as usize;
            if keep == 0 {
                self.firsts.pop_back();
                next_segment = last.segment;
                continue;
            }
            if keep >= last.records.len() && last.summarised {
                break;
            }
            last.records.truncate(keep);
            let seal = RingSummary {
                volume: self.superblock.volume,
                epoch: last.epoch,
                segment: last.segment,
                first: last.first,
                stable: self.expected.prev(),
                records: last.records,
            };
            return (next_segment, Some(seal));
        }
        (next_segment, None)
    }

    /// Returns places in the segment to be sealed that a scan could take for its next record if the summary is lost, in
    /// bytes from the segment's start. Unreadable places are included, and so is the first place of such a search,
    /// whatever its content.
    async fn behind(&mut self, seal: &RingSummary, end: &ChainEnd) -> Vec<u32> {
        let (from, block) = (seal.records_end(), self.ring.block);
        let loaded;
        let bytes = match &end.bytes {
            Some(bytes) if end.segment == seal.segment => bytes,
            _ => {
                loaded = self.load(seal.segment).await;
                &loaded
            }
        };
        let headers = self.headers(bytes, seal.segment, from as usize);
        let mut places = vec![from];
        places.extend(headers.iter().map(|record| record.offset));
        for (segment, at) in &self.unreadable {
            // A header may begin before or in the unreadable part.
            let first = (at + block).saturating_sub(HEADER_BYTES as u32);
            let begins = (first..at + HEADER_BYTES as u32).step_by(block as usize);
            let here = *segment == seal.segment;
            places.extend(begins.filter(|at| here && *at >= from));
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Returns the segments beyond the end that may contain leftovers, as far as a later scan could look.
    fn leftovers(
        &self,
        next_segment: SegmentSeq,
        ahead: &VecDeque<SegmentPeek>,
    ) -> Vec<SegmentSeq> {
        let wipe_end = next_segment.plus(UNSTABLE_SEGMENTS_MAX);
        let end = wipe_end.min(self.ring_end());
        let is_empty = |segment: &SegmentSeq| {
            let seen = ahead.iter().find(|peeked| peeked.segment == *segment);
            seen.is_some_and(SegmentPeek::is_empty)
        };
        let beyond = (next_segment.0..end.0).map(SegmentSeq);
        beyond.filter(|segment| !is_empty(segment)).collect()
    }

    /// Returns the segment that would reuse the slot of the tail.
    fn ring_end(&self) -> SegmentSeq {
        self.superblock.tail.plus(self.ring.segment_count)
    }

    /// Returns every header in a segment from byte `from` on that is of a valid epoch, at any block.
    fn headers(&self, bytes: &[u8], segment: SegmentSeq, from: usize) -> Vec<RingRecord> {
        let RingSuperblock {
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

    /// Returns the damage if the record at the end of the chain was durable, or if this is unknown.
    fn damage(
        &mut self,
        end: &ChainEnd,
        headers: &[RingRecord],
        ahead: &VecDeque<SegmentPeek>,
    ) -> Option<ChainDamage> {
        let missing = self
            .pending
            .first()
            .map_or(self.expected, |record| record.seq);
        let (segment, offset, cannot_be_read) = (end.segment, end.offset, end.unreadable);
        let mut later = Vec::new();
        let mut stable = self.stable;
        for record in headers.iter().filter(|record| record.seq >= missing) {
            stable = stable.max(record.stable);
            later.extend(record.entries.iter().map(written_range));
        }
        for summary in ahead.iter().filter_map(|peeked| peeked.summary.as_ref()) {
            let entries = summary.records.iter().flat_map(|record| &record.entries);
            later.extend(entries.map(written_range));
        }
        self.stable = stable;
        // A log that was stopped clean was empty, regardless of unreadable places and leftovers: its superblock is
        // newer than all of them.
        let in_use = !self.superblock.clean;
        let unreadable = cannot_be_read && in_use;
        let evidence = self.unread_evidence(segment, offset, ahead);
        let evidence_unread = evidence.filter(|_| in_use && missing > stable && !unreadable);
        let damaged = in_use && missing <= stable || unreadable || evidence_unread.is_some();
        damaged.then_some(ChainDamage {
            record: missing,
            segment,
            offset,
            stable,
            unreadable,
            evidence_unread,
            later: joined(later),
        })
    }

    /// Returns the valid headers from the end of the chain on: in its segment, in the next one, and in each later
    /// segment. The last of these is the one after the last segment with content at its ends. Any of the records may
    /// prove that data was durable. A summary proves no less than the headers before it. So segments with a summary are
    /// not read, except for the next one.
    async fn headers_beyond(
        &mut self,
        end: &ChainEnd,
        ahead: &VecDeque<SegmentPeek>,
    ) -> Vec<RingRecord> {
        let ring_end = self.ring_end();
        let mut headers = match &end.bytes {
            Some(bytes) => self.headers(bytes, end.segment, end.offset as usize),
            None if end.segment < ring_end => {
                let bytes = self.load(end.segment).await;
                self.headers(&bytes, end.segment, end.offset as usize)
            }
            None => return Vec::new(),
        };
        let shows = ahead.iter().filter(|peeked| !peeked.is_empty());
        let last = shows.map(|peeked| peeked.segment).max();
        let last = last.unwrap_or(end.segment).max(end.segment).next();
        let mut segment = end.segment.next();
        while segment <= last && segment < ring_end {
            let told = ahead
                .iter()
                .any(|peeked| peeked.segment == segment && peeked.summary.is_some());
            if !told {
                let bytes = self.load(segment).await;
                headers.extend(self.headers(&bytes, segment, 0));
            }
            segment = segment.next();
        }
        headers
    }

    /// Returns the first segment with an unreadable place that may prove that more was durable: at one of the segment's
    /// ends, or anywhere after the end of the chain if the segment was read whole.
    fn unread_evidence(
        &self,
        end: SegmentSeq,
        offset: u32,
        ahead: &VecDeque<SegmentPeek>,
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

fn written_range(entry: &RingEntry) -> (Sector, u64) {
    match entry {
        RingEntry::Data {
            sector, sectors, ..
        } => (*sector, u64::from(*sectors)),
        RingEntry::Range {
            sector, sectors, ..
        } => (*sector, *sectors),
    }
}

/// Sorts the ranges, and merges ranges that touch or overlap.
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
