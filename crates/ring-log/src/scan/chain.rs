//! Follows the chain segment by segment.

use std::collections::VecDeque;

use forebay_device::{BufMut, Device, DeviceError};
use forebay_segment_log::{WalkTarget, header_at, payload_is_sound, walk};
use forebay_units::{Epoch, RecordSeq, SegmentSeq};

use super::found::RecoveredRecord;
use super::peek::{SegmentPeek, peek};
use crate::format::{
    HEADER_BYTES, RingLayout, RingRecord, RingSummary, RingSummaryRecord, RingSuperblock,
};
use crate::ring::{RingGeometry, place};

/// Records of one segment that are in the chain.
pub(super) struct ChainSegment {
    pub(super) segment: SegmentSeq,
    pub(super) epoch: Epoch,
    pub(super) first: RecordSeq,
    pub(super) records: Vec<RingSummaryRecord>,
    /// True if the summary on the device lists exactly these records.
    pub(super) summarised: bool,
}

/// End of the chain.
pub(super) struct ChainEnd {
    pub(super) segment: SegmentSeq,
    pub(super) offset: u32,
    /// The whole segment, if it was read.
    pub(super) bytes: Option<BufMut>,
    /// The place of the end could not be read.
    pub(super) unreadable: bool,
}

impl ChainEnd {
    /// Returns the end of a chain that stops at the end of the segment before this one.
    pub(super) fn nowhere(segment: SegmentSeq) -> ChainEnd {
        ChainEnd {
            segment,
            offset: 0,
            bytes: None,
            unreadable: false,
        }
    }
}

/// A scan in progress: its position, and the facts found so far.
pub(super) struct ChainScanner<'a> {
    pub(super) device: &'a dyn Device,
    pub(super) superblock: &'a RingSuperblock,
    pub(super) ring: RingGeometry,
    pub(super) apply: &'a mut dyn FnMut(&RecoveredRecord),
    /// Highest epoch of the superblock and the records found.
    pub(super) epoch: Epoch,
    /// Epoch of the last accepted record.
    pub(super) chain_epoch: Epoch,
    pub(super) expected: RecordSeq,
    pub(super) stable: RecordSeq,
    /// Records of a group whose last record was not found yet.
    pub(super) pending: Vec<RecoveredRecord>,
    /// Segments from the first segment of the pending group on.
    pub(super) recent: VecDeque<ChainSegment>,
    pub(super) firsts: VecDeque<RecordSeq>,
    pub(super) records: u64,
    pub(super) bytes_read: u64,
    pub(super) summaries_lost: u64,
    /// Blocks that the device could not read: segment, and offset in the segment.
    pub(super) unreadable: Vec<(SegmentSeq, u32)>,
}

impl<'a> ChainScanner<'a> {
    /// Starts at the tail of `superblock`.
    pub(super) fn new(
        device: &'a dyn Device,
        superblock: &'a RingSuperblock,
        apply: &'a mut dyn FnMut(&RecoveredRecord),
    ) -> ChainScanner<'a> {
        ChainScanner {
            device,
            superblock,
            ring: RingGeometry::of(superblock),
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
        }
    }

    pub(super) fn take_evidence(&mut self, peeked: &SegmentPeek) {
        self.bytes_read += peeked.bytes_read;
        let summary = peeked.summary.as_ref().map(|summary| summary.stable);
        let first = peeked.first.as_ref().map(|record| record.stable);
        self.stable = self.stable.max(summary.or(first).unwrap_or_default());
    }

    /// Accepts the records of a segment. Returns the end of the chain if the chain ends here. In this case `peeked`
    /// keeps its summary.
    pub(super) async fn segment(
        &mut self,
        peeked: &mut SegmentPeek,
    ) -> Result<Option<ChainEnd>, DeviceError> {
        let segment = peeked.segment;
        let follows = |summary: &RingSummary| {
            summary.first == self.expected && summary.epoch >= self.chain_epoch
        };
        let last = |summary: &RingSummary| summary.first.plus(summary.records.len() as u64).prev();
        let certain = |summary: &mut RingSummary| follows(summary) && last(summary) <= self.stable;
        if let Some(summary) = peeked.summary.take_if(certain) {
            self.accept(segment, summary.epoch, summary.records, true);
            return Ok(None);
        }
        if let Some(summary) = peeked.summary.as_ref().filter(|summary| follows(summary)) {
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
            return Ok(Some(ChainEnd {
                unreadable,
                ..ChainEnd::nowhere(segment)
            }));
        }
        self.by_headers(segment).await
    }

    fn may_begin(&self, first: Option<&RingRecord>) -> bool {
        first.is_some_and(|record| record.seq == self.expected && record.epoch >= self.chain_epoch)
    }

    /// Returns the number of leading records in a summary that are known to be durable, or verified.
    fn sound_prefix(&self, bytes: &[u8], summary: &RingSummary) -> usize {
        let sound = |(n, listed): &(usize, &RingSummaryRecord)| {
            let seq = summary.first.plus(*n as u64);
            seq <= self.stable
                || (header_at::<RingLayout>(
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

    /// Accepts the records of a segment without a summary by their headers.
    async fn by_headers(&mut self, segment: SegmentSeq) -> Result<Option<ChainEnd>, DeviceError> {
        let bytes = self.load(segment).await;
        let mut records = Vec::new();
        let (mut at, mut epoch) = (0, None);
        let (volume, block) = (self.superblock.volume, self.ring.block);
        let next = WalkTarget::Is(self.expected);
        for record in walk::<RingLayout>(&bytes, block, volume, segment, next) {
            self.stable = self.stable.max(record.stable);
            let certain = record.seq <= self.stable
                || payload_is_sound(&bytes, record.offset, &record.entries);
            if !certain {
                at = record.offset;
                break;
            }
            epoch = Some(record.epoch);
            let RingRecord {
                seq,
                offset,
                payload_bytes,
                continues,
                entries,
                ..
            } = record;
            at = offset + HEADER_BYTES as u32 + payload_bytes;
            records.push(RingSummaryRecord {
                seq,
                offset,
                payload_bytes,
                continues,
                entries,
            });
        }
        let none = records.is_empty();
        self.accept(segment, epoch.unwrap_or(self.chain_epoch), records, false);
        // The chain continues if the next segment begins with the next record: then only the summary is missing.
        let next = segment.next();
        let in_ring = next.since(self.superblock.tail) < self.ring.segment_count;
        if !none && in_ring {
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
                return Ok(Some(ChainEnd {
                    unreadable: true,
                    ..ChainEnd::nowhere(next)
                }));
            }
        }
        Ok(Some(self.end_within(segment, at, bytes)))
    }

    /// Returns an end of the chain within a segment that was read.
    fn end_within(&self, segment: SegmentSeq, offset: u32, bytes: BufMut) -> ChainEnd {
        let header =
            header_at::<RingLayout>(&bytes, offset as usize, self.superblock.volume, segment)
                .filter(|record| record.seq == self.expected);
        let payload = header.map_or(0, |record| record.payload_bytes);
        let needed = offset..offset + HEADER_BYTES as u32 + payload;
        let block = HEADER_BYTES as u32;
        let unreadable = self.unreadable.iter().any(|(in_segment, at)| {
            *in_segment == segment && *at < needed.end && needed.start < *at + block
        });
        ChainEnd {
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
        records: Vec<RingSummaryRecord>,
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
            let mut entries = Vec::with_capacity(record.entries.len());
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
        self.recent.push_back(ChainSegment {
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

    /// Returns the whole segment. Unreadable parts are zeroes, which are no valid record.
    pub(super) async fn load(&mut self, segment: SegmentSeq) -> BufMut {
        let (at, len) = (
            self.ring.segment_at(segment),
            self.ring.segment_bytes as usize,
        );
        self.bytes_read += len as u64;
        if let Ok(bytes) = self.device.read(at, BufMut::to_fill(len)).await {
            return bytes;
        }
        let mut whole = BufMut::zeroed(len);
        for offset in (0..len).step_by(HEADER_BYTES) {
            let block = self
                .device
                .read(at + offset as u64, BufMut::to_fill(HEADER_BYTES))
                .await;
            match block {
                Ok(block) => whole[offset..offset + HEADER_BYTES].copy_from_slice(&block),
                Err(_) => self.unreadable.push((segment, offset as u32)),
            }
        }
        whole
    }
}
