//! Discards that are done ahead of their turn, because home has no room.
//!
//! A thin data device gets room by discards. These lie in the log behind data for which there is no room, so in ring order
//! their turn would never come. What a discard says of a range still counts, however, as soon as its record is durable: no
//! recovery leaves it out, and no older data of that range goes home any more. So it may be done before. The mark stays in the
//! map, and is carried home in its turn once more, which does no harm and keeps the tail's rules as they are (I2, I3).

use std::ops::Range;

use forebay_device::DeviceError;
use forebay_log::RangeKind;

use super::window::Failure;
use crate::engine::Engine;
use crate::marks::home_parts;
use crate::pacing::Priority;
use crate::ranges::Mark;

/// Ranges that are looked up at once.
const LOOKED_UP: usize = 1024;
/// After so many failures in a row, home is not asked any more: it does more than lack room.
const FAILURES_MAX: u32 = 16;

/// True if the data device did not do something because it has no room, or its owner may not have more.
pub(super) fn lacks_room(failure: &Failure) -> bool {
    const ENOSPC: i32 = 28;
    const EDQUOT: i32 = 122;
    match failure {
        Failure::Data(error) => is_of(error, &[ENOSPC, EDQUOT]),
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

impl Engine {
    /// Does at home what discards in the log say, those that were not done ahead before.
    ///
    /// # Errors
    /// If the volume is closing, or the log fails.
    pub(super) async fn discard_ahead(&self) -> Result<(), Failure> {
        let durable = self.log.last_record();
        self.log.flush(durable).await?;
        let since = self.faults.borrow().discarded_ahead;
        let is_new = |mark: &Mark| {
            let gives_room = matches!(mark.kind, RangeKind::Discard | RangeKind::Unmap);
            gives_room && mark.record <= durable && since.is_none_or(|since| mark.record > since)
        };
        let (mut at, mut failures) = (0, 0);
        loop {
            let some: Vec<(Range<u64>, Mark)> = {
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
            // What is fingerprinted is noted as changing first; it is fingerprinted anew with the next window.
            self.about_to_change(some.iter().map(|(range, _)| range.clone()))
                .await?;
            let parts = some
                .into_iter()
                .flat_map(|(range, mark)| home_parts(range).map(move |part| (part, mark)));
            for (part, mark) in parts {
                self.give_way(Priority::of_destaging(true)).await?;
                match self.mark_at_home(mark, part).await {
                    Ok(()) => failures = 0,
                    Err(error) => {
                        failures += 1;
                        self.counters.borrow_mut().data_errors += 1;
                        tracing::debug!(%error, "a discard was not done ahead of its turn");
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
