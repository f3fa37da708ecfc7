//! Telling the medium what is no longer needed: segments that are free, before they are used again.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Device, DeviceError};

use crate::geometry::{Layout, Slot};
use crate::space::Inner;

/// The most segments that are discarded at a time, so that requests of users get their turn.
const AT_ONCE: usize = 16;

/// Discards segments that are free.
pub(crate) async fn discarder(inner: Rc<Inner>) {
    loop {
        let asked = inner.discard_asked.listen();
        let (layout, slots) = {
            let mut streams = inner.commit.composer_mut();
            (streams.layout, streams.usage.take_stale(AT_ONCE))
        };
        if slots.is_empty() {
            asked.await;
            continue;
        }
        // What is not discarded can be written all the same, but on media that tell so when it is.
        if let Err(error) = discard(&*inner.device, &layout, &slots).await {
            tracing::debug!(%error, "free segments were not discarded");
        }
        inner.commit.composer_mut().usage.discarded(&slots);
        inner.replenish(0);
        inner.commit.notify();
    }
}

/// Discards these segments, neighbours together.
///
/// # Errors
/// The device's first; the others are discarded all the same.
pub(crate) async fn discard(
    device: &dyn Device,
    layout: &Layout,
    slots: &[Slot],
) -> Result<(), DeviceError> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for slot in slots {
        let at = layout.slot_at(*slot);
        let end = at + u64::from(layout.segment_bytes);
        match ranges.last_mut() {
            Some(last) if last.end == at => last.end = end,
            _ => ranges.push(at..end),
        }
    }
    let mut worst = Ok(());
    for range in ranges {
        let done = device.discard(range).await;
        worst = worst.and(done);
    }
    worst
}
