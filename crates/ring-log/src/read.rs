//! Reading of appended data.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Buf, BufMut, DeviceError};
use forebay_segment_log::{WalkTarget, read_summary, walk};
use forebay_units::{SECTOR_BYTES, SegmentSeq};

use crate::format::{HEADER_BYTES, RingLayout, RingSummary, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT};
use crate::ring::{AddressedEntry, LogAddr, RingGeometry, place};
use crate::write::{LogShared, RingLog};

/// Protects the segments of a range from reuse while the range is read.
pub struct SegmentPin {
    inner: Rc<LogShared>,
    slots: Range<u64>,
}

impl Drop for SegmentPin {
    fn drop(&mut self) {
        let log = RingLog {
            inner: Rc::clone(&self.inner),
        };
        let free = log.state_mut().unpin(self.slots.clone());
        if free {
            log.notify();
        }
    }
}

impl RingLog {
    /// Passes the data at `addr` to `use_bytes`, if its segment is still in memory.
    pub fn with_ram<T>(
        &self,
        addr: LogAddr,
        sectors: u64,
        use_bytes: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        self.state().in_ram(addr, sectors).map(use_bytes)
    }

    /// Protects a range within one segment from reuse until the pin is dropped.
    pub fn pin(&self, addr: LogAddr) -> SegmentPin {
        let mut state = self.state_mut();
        let slot = state.ring.slot_of(addr);
        state.pin(slot..slot + 1);
        SegmentPin {
            inner: Rc::clone(&self.inner),
            slots: slot..slot + 1,
        }
    }

    /// Reads a range from the device. The caller must verify the data with the checksums.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn read(&self, addr: LogAddr, sectors: u64) -> Result<Buf, DeviceError> {
        let blocks = self.ring().blocks_around(addr, sectors);
        let buf = BufMut::to_fill((blocks.end - blocks.start) as usize);
        let buf = self
            .inner
            .commit
            .device()
            .read(blocks.start, buf)
            .await?
            .freeze();
        let skip = (addr.bytes() - blocks.start) as usize;
        Ok(buf.slice(skip..skip + (sectors * SECTOR_BYTES) as usize))
    }

    /// Returns true if a range consists of whole blocks of the device, so that [`RingLog::read_into`] can read it.
    pub fn is_in_blocks(&self, addr: LogAddr, sectors: u64) -> bool {
        let blocks = self.ring().blocks_around(addr, sectors);
        blocks == (addr.bytes()..addr.plus(sectors).bytes())
    }

    /// Reads into `buf` like [`RingLog::read`]. The range must consist of whole blocks and be as long as `buf`.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn read_into(&self, addr: LogAddr, buf: BufMut) -> Result<BufMut, DeviceError> {
        self.inner.commit.device().read(addr.bytes(), buf).await
    }

    /// Returns true if the device can be read at all: one of the two superblocks is readable.
    pub async fn answers(&self) -> bool {
        for at in [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT] {
            let buf = BufMut::to_fill(HEADER_BYTES);
            if self.inner.commit.device().read(at, buf).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// Returns all entries of a full segment in order, from its summary, or from the headers of its records if the
    /// summary is damaged. `None` if the headers do not account for every record.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn entries(
        &self,
        segment: SegmentSeq,
    ) -> Result<Option<Vec<AddressedEntry>>, DeviceError> {
        let (ring, volume) = (self.ring(), self.volume());
        let (first, next) = (
            self.first_record(segment),
            self.first_record(segment.next()),
        );
        let (device, at) = (&**self.inner.commit.device(), ring.segment_at(segment));
        let summary = read_summary::<RingLayout>(device, at, ring.shape(), volume, segment);
        if let Some(summary) = summary.await?
            && summary.first == first
            && summary.records.len() as u64 == next.since(first)
        {
            return Ok(Some(place_all(&ring, segment, &summary)));
        }
        let buf = BufMut::to_fill(ring.segment_bytes as usize);
        let bytes = device.read(at, buf).await?;
        let mut placed = Vec::new();
        let mut seen = first;
        // Records beyond the last one are leftovers of another epoch.
        let records =
            walk::<RingLayout>(&bytes, ring.block, volume, segment, WalkTarget::Is(first));
        for record in records.take(next.since(first) as usize) {
            place(
                &ring,
                segment,
                record.seq,
                record.offset,
                &record.entries,
                &mut placed,
            );
            seen = record.seq.next();
        }
        Ok((seen >= next).then_some(placed))
    }
}

fn place_all(
    ring: &RingGeometry,
    segment: SegmentSeq,
    summary: &RingSummary,
) -> Vec<AddressedEntry> {
    let mut placed = Vec::new();
    for record in &summary.records {
        let (seq, offset) = (record.seq, record.offset);
        place(ring, segment, seq, offset, &record.entries, &mut placed);
    }
    placed
}
