//! Reading back what was appended.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Buf, BufMut, DeviceError};
use forebay_segments::{Next, read_summary, walk};
use forebay_units::{SECTOR_BYTES, SegmentSeq};

use crate::format::{HEADER_BYTES, Ring, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, Summary};
use crate::ring::{Addr, Placed, RingGeometry, place};
use crate::write::{Inner, Log};

/// Keeps the segments of a stretch from being reused while it is read.
pub struct Pin {
    inner: Rc<Inner>,
    slots: Range<u64>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let log = Log {
            inner: Rc::clone(&self.inner),
        };
        let free = log.state_mut().unpin(self.slots.clone());
        if free {
            log.notify();
        }
    }
}

impl Log {
    /// Gives `use_bytes` the data at `addr`, if its segment is still in memory.
    pub fn with_ram<T>(
        &self,
        addr: Addr,
        sectors: u64,
        use_bytes: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        self.state().in_ram(addr, sectors).map(use_bytes)
    }

    /// Keeps a stretch within one segment from being reused until the pin is dropped.
    pub fn pin(&self, addr: Addr) -> Pin {
        let mut state = self.state_mut();
        let slot = state.ring.slot_of(addr);
        state.pin(slot..slot + 1);
        Pin {
            inner: Rc::clone(&self.inner),
            slots: slot..slot + 1,
        }
    }

    /// Reads a stretch from the device. The caller checks what it reads against the checksums.
    ///
    /// # Errors
    /// The device's.
    pub async fn read(&self, addr: Addr, sectors: u64) -> Result<Buf, DeviceError> {
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

    /// True if a stretch is whole blocks of the device, and can be read by [`Log::read_into`].
    pub fn is_in_blocks(&self, addr: Addr, sectors: u64) -> bool {
        let blocks = self.ring().blocks_around(addr, sectors);
        blocks == (addr.bytes()..addr.plus(sectors).bytes())
    }

    /// As [`Log::read`], of a stretch in whole blocks as long as `buf`, which is filled and given back.
    ///
    /// # Errors
    /// The device's.
    pub async fn read_into(&self, addr: Addr, buf: BufMut) -> Result<BufMut, DeviceError> {
        self.inner.commit.device().read(addr.bytes(), buf).await
    }

    /// True if the device gives back anything at all: the superblock, at either place.
    pub async fn answers(&self) -> bool {
        for at in [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT] {
            let buf = BufMut::to_fill(HEADER_BYTES);
            if self.inner.commit.device().read(at, buf).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// All that a full segment holds, in order: from its summary, or if that is damaged, from the
    /// headers of its records. `None` if those do not account for every record either.
    ///
    /// # Errors
    /// The device's.
    pub async fn entries(&self, segment: SegmentSeq) -> Result<Option<Vec<Placed>>, DeviceError> {
        let (ring, volume) = (self.ring(), self.volume());
        let (first, next) = (
            self.first_record(segment),
            self.first_record(segment.next()),
        );
        let (device, at) = (&**self.inner.commit.device(), ring.segment_at(segment));
        let summary = read_summary::<Ring>(device, at, ring.shape(), volume, segment);
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
        // What lies beyond the last of them is left over from another epoch.
        let records = walk::<Ring>(&bytes, ring.block, volume, segment, Next::Is(first));
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

fn place_all(ring: &RingGeometry, segment: SegmentSeq, summary: &Summary) -> Vec<Placed> {
    let mut placed = Vec::new();
    for record in &summary.records {
        let (seq, offset) = (record.seq, record.offset);
        place(ring, segment, seq, offset, &record.entries, &mut placed);
    }
    placed
}
