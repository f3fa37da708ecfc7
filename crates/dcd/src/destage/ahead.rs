//! Discards that are carried out before their position in the ring, because the data device is full.
//!
//! Discards free space on a thin data device. In the log they lie behind data that the full device cannot take, so in
//! ring order they would never be carried out. A discard may be done early once its record is durable: every recovery
//! applies the record, and older data of the range is never destaged any more. The map keeps the pending discard, and
//! its own window repeats the discard. So the rules for the tail (I2, I3) stay valid.

use std::ops::Range;

use forebay_device::DeviceError;
use forebay_ring_log::RangeKind;

use super::window::WindowFailure;
use crate::engine::DcdEngine;
use crate::marks::home_parts;
use crate::ranges::RangeState;
use crate::yielding::WritebackPriority;

/// Ranges that are copied out of the map at a time.
const LOOKED_UP: usize = 1024;
/// After this many failures in a row the attempt ends: the data device has a fault other than a lack of space.
const FAILURES_MAX: u32 = 16;

/// Returns true if the data device has no free space, or its owner's quota is used up.
pub(super) fn lacks_room(failure: &WindowFailure) -> bool {
    const ENOSPC: i32 = 28;
    const EDQUOT: i32 = 122;
    match failure {
        WindowFailure::Data(error) => is_of(error, &[ENOSPC, EDQUOT]),
        _ => false,
    }
}

fn is_of(error: &DeviceError, numbers: &[i32]) -> bool {
    let DeviceError::Io { source, .. } = error else {
        return false;
    };
    let number = source.raw_os_error();
    number.is_some_and(|number| numbers.contains(&number))
}

impl DcdEngine {
    /// Carries out the discards in the log that no earlier call carried out.
    ///
    /// # Errors
    /// If the volume is closing, or the log fails.
    pub(super) async fn discard_ahead(&self) -> Result<(), WindowFailure> {
        let durable = self.log.last_record();
        self.log.flush(durable).await?;
        let since = self.faults.borrow().discarded_ahead;
        let is_new = |mark: &RangeState| {
            let gives_room = matches!(mark.kind, RangeKind::Discard | RangeKind::Unmap);
            gives_room && mark.record <= durable && since.is_none_or(|since| mark.record > since)
        };
        let (mut at, mut failures) = (0, 0);
        loop {
            let some: Vec<(Range<u64>, RangeState)> = {
                let map = self.map.borrow();
                let rest = map.ranges().overlapping(at..u64::MAX);
                rest.filter(|(_, mark)| is_new(mark))
                    .take(LOOKED_UP)
                    .collect()
            };
            let Some((last, _)) = some.last() else {
                break;
            };
            at = last.end;
            // Fingerprints of blocks in these ranges become unknown first. The next window that is destaged renews
            // them.
            self.about_to_change(some.iter().map(|(range, _)| range.clone()))
                .await?;
            let parts = some
                .into_iter()
                .flat_map(|(range, mark)| home_parts(range).map(move |part| (part, mark)));
            for (part, mark) in parts {
                self.give_way(WritebackPriority::of_destaging(true)).await?;
                match self.mark_at_home(mark, part).await {
                    Ok(()) => failures = 0,
                    Err(error) => {
                        failures += 1;
                        self.counters.borrow_mut().data_errors += 1;
                        tracing::debug!(%error, "an early discard failed");
                    }
                }
                if failures == FAILURES_MAX {
                    return Ok(());
                }
            }
        }
        self.faults.borrow_mut().discarded_ahead = Some(durable);
        Ok(())
    }
}
