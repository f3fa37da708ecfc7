//! Finding the records again: the chain from the tail to where it ends.
//!
//! Read-only, so that `check` and recovery are the same code. What is trusted and why:
//! - A summary is trusted for which records its segment holds and what they do. For the records up
//!   to the highest `stable` seen anywhere, nothing else is read: they were durable.
//! - A record past that is verified on the device, header and payload, and the first that fails ends
//!   the chain: a torn tail, which is normal.
//! - If the record at which the chain ends is not past the highest `stable`, something durable is
//!   missing: that is damage, and the caller decides.
//! - Nor is it a torn tail if the device cannot read what stands there: it may be a whole record,
//!   flushed, and readable at the next try. To go on would make that an end for good. The same holds
//!   for the places further on that may say that the record was durable: what cannot be read there
//!   is no proof of the contrary.
//!
//! `stable` may stand in a later place than the record it covers, but not far: the writer keeps at
//! most [`UNSTABLE_SEGMENTS_MAX`] segments not known durable, so that far ahead is looked, at
//! summaries and first headers, and block by block in the two segments around the end.

mod end;
mod peek;

use std::collections::VecDeque;

use forebay_device::{BufMut, Device, DeviceError};
use forebay_units::{Epoch, RecordSeq, Sector, SegmentSeq};
use futures_util::StreamExt;
use futures_util::stream;

use crate::format::{HEADER_BYTES, Record, Summary, SummaryRecord, Superblock};
use crate::read::{Placed, place};
use crate::ring::RingGeometry;
use crate::state::UNSTABLE_SEGMENTS_MAX;

use end::End;
use peek::{Peek, header_at, payload_is_sound, peek};
pub(crate) use peek::{read_summary, walk};

/// Peeks at segments under way at once.
const PEEKS: usize = 32;

/// A record of the chain, as given to the layer above.
#[derive(Clone, Debug)]
pub struct RecoveredRecord {
    /// Its number.
    pub seq: RecordSeq,
    /// The segment it lies in.
    pub segment: SegmentSeq,
    /// What it says, with places.
    pub entries: Vec<Placed>,
}

/// Something durable that cannot be found any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The first record missing.
    pub record: RecordSeq,
    /// The segment it should lie in.
    pub segment: SegmentSeq,
    /// How far into that segment, in bytes.
    pub offset: u32,
    /// The newest record known to have been durable.
    pub stable: RecordSeq,
    /// What stands there cannot be read, so whether it was durable is not known.
    pub unreadable: bool,
    /// A segment that cannot be read in a place that may say that the record was durable; given only
    /// if nothing that can be read does.
    pub evidence_unread: Option<SegmentSeq>,
    /// Ranges (first sector, sectors) that later records, which can be read but not be applied
    /// without the missing one, had written. Those of the missing record itself cannot be told.
    pub later: Vec<(Sector, u64)>,
}

/// What a scan found.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The highest epoch in the chain or the superblock.
    pub epoch: Epoch,
    /// Where the next segment goes.
    pub next_segment: SegmentSeq,
    /// The record after the last of the chain.
    pub next_record: RecordSeq,
    /// Records in the chain.
    pub records: u64,
    /// The newest record known to have been durable.
    pub stable: RecordSeq,
    /// What is missing, if the chain ends too early.
    pub damage: Option<Damage>,
    /// Bytes read to find out.
    pub bytes_read: u64,
    /// Summaries that could not be read though their segments are full.
    pub summaries_lost: u64,
    /// First record of each segment from the tail on.
    pub(crate) firsts: VecDeque<RecordSeq>,
    /// What the last segment holds, to be sealed with; none if its summary says just that.
    pub(crate) seal: Option<Summary>,
    /// Segments past the end that hold leftovers.
    pub(crate) leftovers: Vec<SegmentSeq>,
}

/// The records of a segment that are in the chain.
struct Accepted {
    segment: SegmentSeq,
    epoch: Epoch,
    first: RecordSeq,
    records: Vec<SummaryRecord>,
    /// True if the summary on the device lists just these.
    summarised: bool,
}

/// Walks the chain that `superblock` begins, giving each record to `apply` once it is certain that
/// it counts. Changes nothing.
///
/// # Errors
/// The device's, where a part of the log cannot be read that is needed to tell where it ends.
pub async fn scan(
    device: &dyn Device,
    superblock: &Superblock,
    apply: &mut dyn FnMut(&RecoveredRecord),
) -> Result<Scan, DeviceError> {
    let ring = RingGeometry::of(superblock);
    let segments = superblock.tail.0..superblock.tail.0 + ring.segment_count;
    let peeks = stream::iter(segments.map(SegmentSeq))
        .map(|segment| peek(device, superblock, ring, segment))
        .buffered(PEEKS);
    let mut scanner = Scanner {
        device,
        superblock,
        ring,
        apply,
        epoch: superblock.epoch,
        chain_epoch: Epoch(0),
        expected: superblock.tail_record,
        stable: superblock.stable,
        pending: Vec::new(),
        recent: VecDeque::new(),
        firsts: VecDeque::new(),
        records: 0,
        bytes_read: 0,
        summaries_lost: 0,
        unreadable: Vec::new(),
    };
    let mut peeks = std::pin::pin!(peeks);
    let mut ahead: VecDeque<Peek> = VecDeque::new();
    let mut segment = superblock.tail;
    let end = loop {
        while ahead.len() as u64 <= UNSTABLE_SEGMENTS_MAX
            && let Some(peeked) = peeks.next().await
        {
            scanner.take_evidence(&peeked);
            ahead.push_back(peeked);
        }
        let Some(peeked) = ahead.pop_front() else {
            break End::nowhere(segment);
        };
        if let Some(end) = scanner.segment(&peeked).await? {
            ahead.push_front(peeked);
            break end;
        }
        segment = segment.next();
    };
    scanner.finish(end, ahead).await
}

struct Scanner<'a> {
    device: &'a dyn Device,
    superblock: &'a Superblock,
    ring: RingGeometry,
    apply: &'a mut dyn FnMut(&RecoveredRecord),
    /// The highest epoch seen or named.
    epoch: Epoch,
    /// The epoch of the last record accepted.
    chain_epoch: Epoch,
    expected: RecordSeq,
    stable: RecordSeq,
    /// Records of a group whose end has not come yet.
    pending: Vec<RecoveredRecord>,
    /// The segments from the one where the pending group began.
    recent: VecDeque<Accepted>,
    firsts: VecDeque<RecordSeq>,
    records: u64,
    bytes_read: u64,
    summaries_lost: u64,
    /// Blocks that the device could not read: of which segment, and how far into it.
    unreadable: Vec<(SegmentSeq, u32)>,
}

impl Scanner<'_> {
    fn take_evidence(&mut self, peeked: &Peek) {
        self.bytes_read += peeked.bytes_read;
        let summary = peeked.summary.as_ref().map(|summary| summary.stable);
        let first = peeked.first.as_ref().map(|record| record.stable);
        self.stable = self.stable.max(summary.or(first).unwrap_or_default());
    }

    /// Takes a segment's records up; says where the chain ends, if it does so here.
    async fn segment(&mut self, peeked: &Peek) -> Result<Option<End>, DeviceError> {
        let segment = peeked.segment;
        let follows = |summary: &&Summary| {
            summary.first == self.expected && summary.epoch >= self.chain_epoch
        };
        if let Some(summary) = peeked.summary.as_ref().filter(follows) {
            let last = summary.first.plus(summary.records.len() as u64).prev();
            if last <= self.stable {
                let records = summary.records.clone();
                self.accept(segment, summary.epoch, records, true);
                return Ok(None);
            }
            let bytes = self.load(segment).await;
            let sound = self.sound_prefix(&bytes, summary);
            let complete = sound == summary.records.len();
            self.accept(
                segment,
                summary.epoch,
                summary.records[..sound].to_vec(),
                complete,
            );
            let end = summary.records.get(sound).map(|record| record.offset);
            return Ok(end.map(|offset| self.end_within(segment, offset, bytes)));
        }
        if peeked.summary.is_some() || !self.may_begin(peeked.first.as_ref()) {
            let unreadable = peeked.unreadable;
            return Ok(Some(End {
                unreadable,
                ..End::nowhere(segment)
            }));
        }
        self.by_headers(segment).await
    }

    fn may_begin(&self, first: Option<&Record>) -> bool {
        first.is_some_and(|record| record.seq == self.expected && record.epoch >= self.chain_epoch)
    }

    /// How many of a summary's records are certain or verified.
    fn sound_prefix(&self, bytes: &[u8], summary: &Summary) -> usize {
        let sound = |(n, listed): &(usize, &SummaryRecord)| {
            let seq = summary.first.plus(*n as u64);
            seq <= self.stable
                || (header_at(
                    bytes,
                    listed.offset as usize,
                    summary.volume,
                    summary.segment,
                )
                .is_some_and(|header| header.seq == seq && header.epoch == summary.epoch)
                    && payload_is_sound(bytes, listed.offset, &listed.entries))
        };
        summary.records.iter().enumerate().take_while(sound).count()
    }

    /// Takes up a segment without a summary by the headers of its records.
    async fn by_headers(&mut self, segment: SegmentSeq) -> Result<Option<End>, DeviceError> {
        let bytes = self.load(segment).await;
        let mut records = Vec::new();
        let (mut at, mut epoch) = (0, None);
        for record in walk(&bytes, self.superblock.volume, segment, self.expected) {
            // A leftover of another epoch; nor is it evidence of what was durable in this one.
            if epoch.is_some_and(|epoch| epoch != record.epoch) {
                break;
            }
            self.stable = self.stable.max(record.stable);
            let certain = record.seq <= self.stable
                || payload_is_sound(&bytes, record.offset, &record.entries);
            if !certain {
                break;
            }
            epoch = Some(record.epoch);
            let Record {
                offset,
                payload_bytes,
                continues,
                entries,
                ..
            } = record;
            at = offset + HEADER_BYTES as u32 + payload_bytes;
            records.push(SummaryRecord {
                offset,
                payload_bytes,
                continues,
                entries,
            });
        }
        self.accept(segment, epoch.unwrap_or(self.chain_epoch), records, false);
        // The chain goes on if the next segment begins with the next record: then only the summary
        // is missing.
        let next = segment.next();
        let in_ring = next.since(self.superblock.tail) < self.ring.segment_count;
        if at > 0 && in_ring {
            let peeked = peek(self.device, self.superblock, self.ring, next).await;
            let by_summary = peeked
                .summary
                .as_ref()
                .map(|summary| (summary.first, summary.epoch));
            let by_header = peeked
                .first
                .as_ref()
                .map(|record| (record.seq, record.epoch));
            let goes_on = |(first, epoch)| first == self.expected && epoch >= self.chain_epoch;
            if by_summary.or(by_header).is_some_and(goes_on) {
                self.summaries_lost += 1;
                return Ok(None);
            }
            if peeked.unreadable {
                return Ok(Some(End {
                    unreadable: true,
                    ..End::nowhere(next)
                }));
            }
        }
        Ok(Some(self.end_within(segment, at, bytes)))
    }

    /// The chain ends within a segment that has been read.
    fn end_within(&self, segment: SegmentSeq, offset: u32, bytes: BufMut) -> End {
        let header = header_at(&bytes, offset as usize, self.superblock.volume, segment)
            .filter(|record| record.seq == self.expected);
        let payload = header.map_or(0, |record| record.payload_bytes);
        let needed = offset..offset + HEADER_BYTES as u32 + payload;
        let block = HEADER_BYTES as u32;
        let unreadable = self.unreadable.iter().any(|(in_segment, at)| {
            *in_segment == segment && *at < needed.end && needed.start < *at + block
        });
        End {
            segment,
            offset,
            bytes: Some(bytes),
            unreadable,
        }
    }

    fn accept(
        &mut self,
        segment: SegmentSeq,
        epoch: Epoch,
        records: Vec<SummaryRecord>,
        summarised: bool,
    ) {
        if records.is_empty() {
            return;
        }
        self.firsts.push_back(self.expected);
        self.chain_epoch = epoch;
        self.epoch = self.epoch.max(epoch);
        let first = self.expected;
        for record in &records {
            let seq = self.expected;
            self.expected = seq.next();
            let mut entries = Vec::new();
            place(
                &self.ring,
                segment,
                seq,
                record.offset,
                &record.entries,
                &mut entries,
            );
            self.pending.push(RecoveredRecord {
                seq,
                segment,
                entries,
            });
            if !record.continues {
                self.records += self.pending.len() as u64;
                for record in self.pending.drain(..) {
                    (self.apply)(&record);
                }
            }
        }
        self.recent.push_back(Accepted {
            segment,
            epoch,
            first,
            records,
            summarised,
        });
        let keep = self
            .pending
            .first()
            .map_or(segment, |record| record.segment);
        self.recent.retain(|accepted| accepted.segment >= keep);
    }

    /// The whole segment; parts that cannot be read are zeroes, which nothing takes for a record.
    async fn load(&mut self, segment: SegmentSeq) -> BufMut {
        let (at, len) = (
            self.ring.segment_at(segment),
            self.ring.segment_bytes as usize,
        );
        self.bytes_read += len as u64;
        if let Ok(bytes) = self.device.read(at, BufMut::zeroed(len)).await {
            return bytes;
        }
        let mut whole = BufMut::zeroed(len);
        for offset in (0..len).step_by(HEADER_BYTES) {
            let block = self
                .device
                .read(at + offset as u64, BufMut::zeroed(HEADER_BYTES))
                .await;
            match block {
                Ok(block) => whole[offset..offset + HEADER_BYTES].copy_from_slice(&block),
                Err(_) => self.unreadable.push((segment, offset as u32)),
            }
        }
        whole
    }
}
