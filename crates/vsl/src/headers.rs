//! Finds the records of a segment without a summary by their headers.
//!
//! A segment with few records is *bare*: it has no summary, and its headers are the only list of its contents
//! ([`SegmentBuilder`](forebay_segment_log::Builder)). A segment that was not full at a crash has no summary either. Headers are
//! followed one by one, since each header leads to the next. For a segment of long records, only a small part is read.
//!
//! In a volume each record begins where the record before ends. A missing header at this position means either the end
//! of the records or a damaged header. Both look the same, so the rest of the segment is searched block by block for
//! another header. Behind the records of a full segment this rest is short. Old contents of the slot are not mistaken
//! for a header, since they have the number of another segment.

use forebay_device::{Buf, BufMut, DeviceError};
use forebay_units::{Epoch, RecordSeq, SegmentSeq};

use crate::format::{HEADER_BYTES, SpaceRecord, VolumeId};
use crate::geometry::SegmentSlot;
use crate::store::{SegmentStore, read_blocks};
use forebay_segment_log::header_in;

/// Minimum read size where a small read costs little more than a header, in bytes: for the rest of a segment, and for
/// headers of short records.
const NEAR_BYTES: u64 = 64 << 10;
/// Bytes of one read while searching for headers.
const AT_ONCE: u64 = 1 << 20;

/// Finds the records of one segment, in order.
pub(crate) struct HeaderReader<'a> {
    store: &'a dyn SegmentStore,
    volume: VolumeId,
    pub(crate) slot: SegmentSlot,
    pub(crate) segment: SegmentSeq,
    /// The epoch of all records of the segment, once known.
    epoch: Option<Epoch>,
    /// The smallest valid number of the next record.
    least: RecordSeq,
    /// Expected offset of the next record, in bytes.
    at: u64,
    /// Bytes to read from the next header on.
    ahead: u64,
    /// Offset in the segment and bytes of the last read.
    read: (u64, Buf),
    /// Total bytes read.
    pub(crate) bytes_read: u64,
    /// True if a record was found behind a missing record.
    pub(crate) has_gap: bool,
}

impl<'a> HeaderReader<'a> {
    /// Starts at the first byte of a segment. If `epoch` is given, only records of this epoch are valid.
    pub(crate) fn new(
        store: &'a dyn SegmentStore,
        volume: VolumeId,
        slot: SegmentSlot,
        segment: SegmentSeq,
        epoch: Option<Epoch>,
    ) -> HeaderReader<'a> {
        HeaderReader {
            store,
            volume,
            slot,
            segment,
            epoch,
            least: RecordSeq(1),
            at: 0,
            ahead: HEADER_BYTES as u64,
            read: (0, BufMut::zeroed(0).freeze()),
            bytes_read: 0,
            has_gap: false,
        }
    }

    /// Returns the first bytes of the segment, and the record there, if any.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn first(&mut self) -> Result<(&[u8], Option<SpaceRecord>), DeviceError> {
        let record = self.header(0, HEADER_BYTES as u64).await?;
        Ok((&self.read.1[..HEADER_BYTES], record))
    }

    /// Returns the next record. `None` behind the last record.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn next(&mut self) -> Result<Option<SpaceRecord>, DeviceError> {
        let mut found = self.header(self.at, self.ahead).await?;
        if found.is_none() {
            found = self.find().await?;
            self.has_gap |= found.is_some();
        }
        let Some(record) = found else {
            return Ok(None);
        };
        let payload = u64::from(record.payload_bytes);
        self.at = u64::from(record.offset) + HEADER_BYTES as u64 + payload;
        // Reading on costs less than skipping a short record.
        self.ahead = if payload < NEAR_BYTES {
            (2 * self.ahead).min(AT_ONCE)
        } else {
            HEADER_BYTES as u64
        };
        (self.epoch, self.least) = (Some(record.epoch), record.seq.next());
        Ok((self.at <= self.end()).then_some(record))
    }

    fn end(&self) -> u64 {
        self.store.layout().segment_bytes.into()
    }

    /// Searches for a record behind the expected position of the next record.
    async fn find(&mut self) -> Result<Option<SpaceRecord>, DeviceError> {
        let block = u64::from(self.store.layout().block);
        let mut at = self.at + block;
        while at + (HEADER_BYTES as u64) <= self.end() {
            let found = self.header(at, AT_ONCE).await?;
            if found.is_some() {
                return Ok(found);
            }
            at += block;
        }
        Ok(None)
    }

    /// Returns the record that begins at byte `at` of the segment. If its header was not read yet, reads `ahead` bytes.
    async fn header(&mut self, at: u64, ahead: u64) -> Result<Option<SpaceRecord>, DeviceError> {
        let header = at..at + HEADER_BYTES as u64;
        if header.end > self.end() {
            return Ok(None);
        }
        let (from, bytes) = &self.read;
        if header.start < *from || header.end > from + bytes.len() as u64 {
            let rest = self.end() - at;
            let ahead = if rest <= NEAR_BYTES { rest } else { ahead };
            let range = at..at + ahead.min(rest);
            self.bytes_read += range.end - range.start;
            self.read = read_blocks(self.store, self.slot, range).await?;
        }
        let (from, bytes) = &self.read;
        let bytes = &bytes[(at - from) as usize..];
        let record: Option<SpaceRecord> = header_in(bytes, at, self.volume, self.segment);
        let follows = |record: &SpaceRecord| {
            let is_epoch = self.epoch.is_none_or(|epoch| epoch == record.epoch);
            is_epoch && record.seq >= self.least
        };
        Ok(record.filter(follows))
    }
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
