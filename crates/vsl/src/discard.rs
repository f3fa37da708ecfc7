//! Discards of free segments, before they are used again.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::DeviceError;

use crate::error::SpaceError;
use crate::geometry::SegmentSlot;
use crate::space::{Space, SpaceInner};
use crate::store::SegmentStore;

/// Maximum number of segments that are discarded at a time, so that requests of clients can run in between.
const AT_ONCE: usize = 16;

/// Discards free segments.
pub(crate) async fn discarder(inner: Rc<SpaceInner>) {
    loop {
        inner.still.until_changes().await;
        let asked = inner.discard_asked.listen();
        let slots = inner.commit.composer_mut().table.take_stale(AT_ONCE);
        if slots.is_empty() {
            asked.await;
            continue;
        }
        let _step = inner.still.begin_step();
        // A segment can be written even if its discard failed. Some devices report an error only when the segment is
        // written.
        if let Err(error) = discard(&*inner.store, &slots).await {
            tracing::debug!(%error, "the discard of free segments failed");
        }
        inner.commit.composer_mut().table.discarded(&slots);
        inner.replenish(0);
        inner.commit.notify();
    }
}

impl Space {
    /// Discards all free segments within `range`, which is in bytes of all segments, whether or not they were discarded
    /// before. Returns their bytes.
    ///
    /// # Errors
    /// The volume has failed, or the device fails the discard.
    pub async fn discard_free(&self, range: Range<u64>) -> Result<u64, SpaceError> {
        let inner = &self.inner;
        // Segments without data become free only when they are needed. Free all of them now.
        self.checkpoint().await?;
        inner.settle_all();
        self.flush().await?;
        inner.replenish(0);
        let segment = u64::from(inner.commit.composer().layout.segment_bytes);
        let slot = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let mut slots = slot(range.start.div_ceil(segment))..slot(range.end / segment);
        let mut bytes = 0;
        loop {
            let taken = inner
                .commit
                .composer_mut()
                .table
                .take_free_of(slots.clone(), AT_ONCE);
            let Some(last) = taken.last() else {
                return Ok(bytes);
            };
            slots.start = last.0 + 1;
            let done = discard(&*inner.store, &taken).await;
            inner.commit.composer_mut().table.discarded(&taken);
            inner.replenish(0);
            inner.commit.notify();
            done?;
            bytes += taken.len() as u64 * segment;
        }
    }
}

/// Discards segments. Adjacent segments form one request.
///
/// # Errors
/// The device's first error. The other segments are discarded nevertheless.
pub(crate) async fn discard(
    store: &dyn SegmentStore,
    slots: &[SegmentSlot],
) -> Result<(), DeviceError> {
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for slot in slots {
        match ranges.last_mut() {
            Some(last) if last.end == slot.0 => last.end += 1,
            _ => ranges.push(slot.0..slot.0 + 1),
        }
    }
    let mut worst = Ok(());
    for range in ranges {
        let done = store.discard(range).await;
        worst = worst.and(done);
    }
    worst
}
