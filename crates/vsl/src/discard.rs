//! Telling the medium what is no longer needed: segments that are free, before they are used again.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::DeviceError;

use crate::geometry::Slot;
use crate::space::Inner;
use crate::store::SegmentStore;

/// The most segments that are discarded at a time, so that requests of users get their turn.
const AT_ONCE: usize = 16;

/// Discards segments that are free.
pub(crate) async fn discarder(inner: Rc<Inner>) {
    loop {
        let asked = inner.discard_asked.listen();
        let slots = inner.commit.composer_mut().table.take_stale(AT_ONCE);
        if slots.is_empty() {
            asked.await;
            continue;
        }
        // What is not discarded can be written all the same, but on media that tell so when it is.
        if let Err(error) = discard(&*inner.store, &slots).await {
            tracing::debug!(%error, "free segments were not discarded");
        }
        inner.commit.composer_mut().table.discarded(&slots);
        inner.replenish(0);
        inner.commit.notify();
    }
}

/// Discards these segments, neighbours together.
///
/// # Errors
/// The device's first; the others are discarded all the same.
pub(crate) async fn discard(store: &dyn SegmentStore, slots: &[Slot]) -> Result<(), DeviceError> {
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
