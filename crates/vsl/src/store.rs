//! Storage of segments.
//!
//! The engine addresses bytes of a segment by slot and offset in a [`SegmentStore`]. The only store so far is a device.
//! An object store is also possible, since a closed segment never changes, unless a placement writes in place.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Buf, BufMut, Device, DeviceError, Durability, IoFuture};
use forebay_segment_log::{SegmentSummary, summary_in};
use forebay_units::{SegmentSeq, round_down, round_up};

use crate::format::{HEADER_BYTES, SpaceRecordLayout, VolumeId};
use crate::geometry::{SegmentLayout, SegmentSlot};

/// Reads and writes segments. All offsets and lengths are in bytes, and multiples of the layout's block.
pub(crate) trait SegmentStore {
    /// Returns the layout of the segments.
    fn layout(&self) -> SegmentLayout;

    /// Reads `buf.len()` bytes of a slot.
    fn read(&self, slot: SegmentSlot, offset: u64, buf: BufMut) -> IoFuture<'_, BufMut>;

    /// Overwrites a part of a closed segment. The write is durable with the store's next flush.
    fn write_in_place(&self, slot: SegmentSlot, offset: u64, buf: Buf) -> IoFuture<'_, ()>;

    /// Discards consecutive slots.
    fn discard(&self, slots: Range<u32>) -> IoFuture<'_, ()>;
}

/// The segments of a device.
pub(crate) struct DeviceStore {
    device: Rc<dyn Device>,
    layout: SegmentLayout,
}

impl DeviceStore {
    pub(crate) fn new(device: Rc<dyn Device>, layout: SegmentLayout) -> DeviceStore {
        DeviceStore { device, layout }
    }
}

impl SegmentStore for DeviceStore {
    fn layout(&self) -> SegmentLayout {
        self.layout
    }

    fn read(&self, slot: SegmentSlot, offset: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.device.read(self.layout.slot_at(slot) + offset, buf)
    }

    fn write_in_place(&self, slot: SegmentSlot, offset: u64, buf: Buf) -> IoFuture<'_, ()> {
        let at = self.layout.slot_at(slot) + offset;
        self.device.write(at, buf, Durability::Flush)
    }

    fn discard(&self, slots: Range<u32>) -> IoFuture<'_, ()> {
        let [from, to] =
            [slots.start, slots.end].map(|slot| self.layout.slot_at(SegmentSlot(slot)));
        self.device.discard(from..to)
    }
}

/// Reads the blocks that overlap `range`, in bytes of a segment. Also returns the offset of the first block.
///
/// # Errors
/// The store's.
pub(crate) async fn read_blocks(
    store: &dyn SegmentStore,
    slot: SegmentSlot,
    range: Range<u64>,
) -> Result<(u64, Buf), DeviceError> {
    let block = u64::from(store.layout().block);
    let (from, to) = (round_down(range.start, block), round_up(range.end, block));
    let buf = BufMut::to_fill((to - from) as usize);
    let read = store.read(slot, from, buf).await?;
    Ok((from, read.freeze()))
}

/// Reads a range of a segment and passes it to `check`. Every read of the volume's own data is checked: by this
/// function, or by `read.rs::read_part` for reads directly into a client's memory.
///
/// # Errors
/// The store's.
pub(crate) async fn read_checked<T>(
    store: &dyn SegmentStore,
    slot: SegmentSlot,
    range: Range<u64>,
    check: impl FnOnce(&[u8]) -> T,
) -> Result<T, DeviceError> {
    let (from, bytes) = read_blocks(store, slot, range.clone()).await?;
    let at = |offset: u64| (offset - from) as usize;
    Ok(check(&bytes[at(range.start)..at(range.end)]))
}

/// Reads the summary of a segment. `None` if the slot has no valid summary of a segment with this number.
///
/// # Errors
/// The store's.
pub(crate) async fn read_summary(
    store: &dyn SegmentStore,
    volume: VolumeId,
    slot: SegmentSlot,
    segment: SegmentSeq,
) -> Result<Option<SegmentSummary<SpaceRecordLayout>>, DeviceError> {
    let shape = store.layout().shape();
    let end = u64::from(shape.segment_bytes);
    let last = end - HEADER_BYTES as u64;
    let (_, block) = read_blocks(store, slot, last..end).await?;
    let Ok(total) = SegmentSummary::<SpaceRecordLayout>::total_len(&block, shape.segment_bytes)
    else {
        return Ok(None);
    };
    let sound = |bytes: &[u8]| summary_in(bytes, shape, volume, segment);
    if total == HEADER_BYTES {
        return Ok(sound(&block));
    }
    read_checked(store, slot, end - total as u64..end, sound).await
}
