//! Pacing: writers wait, so that they fill a nearly full log no faster than destaging empties it.

use std::time::Duration;

use forebay_device::AckMode;
use futures_util::future::select;

use super::policy;
use super::queue::SpaceDemand;
use crate::engine::DcdEngine;

/// Shortest wait. Shorter waits are not worth a timer.
const PACE_GRAIN: Duration = Duration::from_millis(1);
/// Interval at which a paced writer checks the pace again, since the pace changes.
const PACE_AGAIN: Duration = Duration::from_millis(20);
/// Maximum time that the pace alone delays the writer at the head of the queue.
const PACED_MAX: Duration = Duration::from_secs(1);
/// Approximate space that a fragment or a mark takes in the log besides its data, in bytes.
const ENTRY_BYTES: u64 = 32;

impl DcdEngine {
    /// Returns how long a write must wait, so that writers and destaging reach the same rate before the log is full.
    /// `None` if writers are not paced.
    pub(super) fn pace_wait(&self) -> Option<Duration> {
        let Some(multiple) = policy::pace(self.used_soon()) else {
            self.admission.pace.borrow_mut().forgive();
            return None;
        };
        Some(
            self.admission
                .pace
                .borrow_mut()
                .wait(multiple, self.rt.now()),
        )
    }

    /// Charges an admitted write against the pace.
    pub(super) fn take(&self, wanted: SpaceDemand) {
        let bytes = wanted.bytes + wanted.entries * ENTRY_BYTES;
        let segment_bytes = self.log.ring().segment_bytes;
        let head = self.log.head();
        self.admission
            .pace
            .borrow_mut()
            .take(bytes, head, segment_bytes);
    }

    /// Waits until the pace admits the next writer, and checks again as the log empties.
    ///
    /// If each write waits until it is in the log, writes admitted one by one would take a record each. The header
    /// would be as long as the data. So if several writes are queued, they are admitted together.
    pub(super) async fn keep_pace(&self) {
        let end = self.rt.now().plus(PACED_MAX);
        while !self.is_closing() && self.log.failure().is_none() && self.rt.now() < end {
            let progress = self.log.progress();
            let together = self.options.acknowledge > AckMode::Memory;
            if together && self.admission.pace.borrow().in_bunch() {
                return;
            }
            let Some(wait) = self.pace_wait().filter(|wait| !wait.is_zero()) else {
                if together && self.admission.queued() > 1 {
                    self.admission.pace.borrow_mut().begin_bunch();
                }
                return;
            };
            let sleep = self.rt.sleep(wait.clamp(PACE_GRAIN, PACE_AGAIN));
            let settled = self.signals.settled.listen();
            select(sleep, select(settled, progress)).await;
        }
    }
}
