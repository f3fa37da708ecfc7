//! The records of a segment that has no summary, found by their headers.
//!
//! A segment with few records is *bare*: it has no summary, and its headers are the only list of what it holds
//! ([`Builder`](forebay_segments::Builder)). A segment that a crash left before it was full has no summary either. Headers
//! are followed one by one: each tells where the next is. So little is read of a segment of long records.
//!
//! In a volume each record begins where the one before ends. Where no header stands there, the records end, or the header
//! is damaged. Both look the same, so the rest of the segment is looked through block by block for a further header. Behind
//! the records of a full segment the rest is short. What the slot held before is not taken for a header: it has the
//! number of another segment.

use forebay_device::{Buf, BufMut, DeviceError};
use forebay_units::{Epoch, RecordSeq, SegmentSeq};

use crate::format::{HEADER_BYTES, Record, VolumeId};
use crate::geometry::Slot;
use crate::store::{SegmentStore, read_blocks};
use forebay_segments::header_in;

/// So much is read at once rather than a header by itself, in bytes: the rest of a segment, and headers of short records.
const NEAR_BYTES: u64 = 64 << 10;
/// Bytes that are read at once where headers are looked for.
const AT_ONCE: u64 = 1 << 20;

/// Finds the records of one segment, in order.
pub(crate) struct Headers<'a> {
    store: &'a dyn SegmentStore,
    volume: VolumeId,
    pub(crate) slot: Slot,
    pub(crate) segment: SegmentSeq,
    /// The epoch of all records of the segment, once it is known.
    epoch: Option<Epoch>,
    /// The least number that the next record may have.
    least: RecordSeq,
    /// Where the next record should begin, in bytes.
    at: u64,
    /// How much is read with its header.
    ahead: u64,
    /// What was read last, and where in the segment it begins.
    read: (u64, Buf),
    /// Bytes that were read.
    pub(crate) bytes_read: u64,
    /// A record was found behind one that is missing.
    pub(crate) has_gap: bool,
}

impl<'a> Headers<'a> {
    /// Of the segment of this number in a slot. `epoch` is that of its records, if only one is valid.
    pub(crate) fn new(
        store: &'a dyn SegmentStore,
        volume: VolumeId,
        (slot, segment): (Slot, SegmentSeq),
        epoch: Option<Epoch>,
    ) -> Headers<'a> {
        Headers {
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

    /// What stands where the segment begins, and the record there if it has one.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn first(&mut self) -> Result<(&[u8], Option<Record>), DeviceError> {
        let record = self.header(0, HEADER_BYTES as u64).await?;
        Ok((&self.read.1[..HEADER_BYTES], record))
    }

    /// The next record; `None` behind the last.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn next(&mut self) -> Result<Option<Record>, DeviceError> {
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
        // To read on costs less than to jump over a short record.
        self.ahead = match payload < NEAR_BYTES {
            true => (2 * self.ahead).min(AT_ONCE),
            false => HEADER_BYTES as u64,
        };
        (self.epoch, self.least) = (Some(record.epoch), record.seq.next());
        Ok((self.at <= self.end()).then_some(record))
    }

    fn end(&self) -> u64 {
        self.store.layout().segment_bytes.into()
    }

    /// Looks for a record behind the place where the next should begin.
    async fn find(&mut self) -> Result<Option<Record>, DeviceError> {
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

    /// The record that begins at a byte of the segment. If that was not read yet, `ahead` bytes are.
    async fn header(&mut self, at: u64, ahead: u64) -> Result<Option<Record>, DeviceError> {
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
        let record: Option<Record> = header_in(bytes, at, self.volume, self.segment);
        let follows = |record: &Record| {
            let is_epoch = self.epoch.is_none_or(|epoch| epoch == record.epoch);
            is_epoch && record.seq >= self.least
        };
        Ok(record.filter(follows))
    }
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
