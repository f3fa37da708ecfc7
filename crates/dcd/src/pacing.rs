//! Yielding and pacing: destaging yields to clients, and writers wait for destaging.
//!
//! A disk has one queue, so each new request waits behind those under way. While the log has free space, destaging lets
//! clients go first, and limits its requests under way to what clients may wait for (`state/speed.rs` computes the
//! limit). When the log is nearly full, writers wait instead, so that they fill the log no faster than destaging
//! empties it (`state/pace.rs`). `policy.rs` has the thresholds and times.

use std::time::Duration;

use forebay_device::{AckMode, DeviceError, DeviceOp, Result};
use futures_util::future::select;

use crate::engine::DcdEngine;
use crate::policy;
use crate::state::SpaceDemand;

/// Shortest wait. Shorter waits are not worth a timer.
const PACE_GRAIN: Duration = Duration::from_millis(1);
/// Interval at which a paced writer checks the pace again, since the pace changes.
const PACE_AGAIN: Duration = Duration::from_millis(20);
/// Maximum time that the pace alone delays the writer at the head of the queue.
const PACED_MAX: Duration = Duration::from_secs(1);
/// Approximate space that a fragment or a mark takes in the log besides its data, in bytes.
const ENTRY_BYTES: u64 = 32;

/// Priority of background writes in relation to clients' requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WritebackPriority {
    /// Destaging while the log has free space: clients go first.
    Idle,
    /// Destaging that must not wait, because the log is filling up or a task waits for destaging.
    Urgent,
    /// The rescue from a failed log, which clients wait for.
    Rescue,
}

impl WritebackPriority {
    /// Returns the priority of destaging.
    pub(crate) fn of_destaging(urgent: bool) -> WritebackPriority {
        if urgent {
            WritebackPriority::Urgent
        } else {
            WritebackPriority::Idle
        }
    }
}

impl DcdEngine {
    /// Collects the input of [`policy::decide`].
    pub(crate) fn observe(&self) -> policy::DestageInput {
        let used = self.used();
        let something = !self.map.borrow().is_empty() || self.log.tail() != self.log.head();
        let keeps = self.keeps_all();
        let due = self.refused.borrow().due(self.rt.now());
        policy::DestageInput {
            used,
            dirty: something
                && (!keeps || due || self.log_used() > policy::HIGH_WATER && self.would_gain()),
            idle: self.activity.borrow().idle(self.rt.now()),
            pressed: self.activity.borrow().presses(),
            look_again: self.refused.borrow().due_in(self.rt.now()),
        }
    }

    /// Waits for `span`, or until destaging is urgent.
    pub(crate) async fn wait_unless_urgent(&self, span: Duration) {
        let sleep = self.rt.sleep(span);
        select(sleep, self.signals.urgent.listen()).await;
    }

    /// Yields to clients if the priority requires it: returns when no client is being served, or at once.
    ///
    /// # Errors
    /// If the volume is closing: data that is not on the data device by then stays in the log. For destaging, also if
    /// the log has failed.
    pub(crate) async fn give_way(&self, priority: WritebackPriority) -> Result<()> {
        match priority {
            WritebackPriority::Idle => self.yield_to_users(false).await,
            WritebackPriority::Urgent => self.yield_to_users(true).await,
            WritebackPriority::Rescue if self.is_stopping() => Err(DeviceError::Closed {
                op: DeviceOp::Write,
            }),
            WritebackPriority::Rescue => Ok(()),
        }
    }

    /// Returns true if work under way must end: the volume is closing, or the rescue takes over.
    pub(crate) fn is_called_off(&self, priority: WritebackPriority) -> bool {
        match priority {
            WritebackPriority::Idle | WritebackPriority::Urgent => {
                self.is_closing() || self.log.failure().is_some()
            }
            WritebackPriority::Rescue => self.is_stopping(),
        }
    }

    /// Returns how long work under way may keep clients waiting. `None` means without bound.
    pub(crate) fn patience(&self, priority: WritebackPriority) -> Option<Duration> {
        let pressed = || self.observe().pressed;
        match priority {
            WritebackPriority::Idle => policy::patience(false, pressed()),
            WritebackPriority::Urgent => policy::patience(true, pressed()),
            WritebackPriority::Rescue => None,
        }
    }

    async fn yield_to_users(&self, urgent: bool) -> Result<()> {
        loop {
            let op = DeviceOp::Write;
            if self.is_closing() {
                return Err(DeviceError::Closed { op });
            }
            // The rescue takes over, and clients wait for it, so they are never idle.
            if self.log.failure().is_some() {
                let cause = "the log failed meanwhile".into();
                return Err(DeviceError::Failed { op, cause });
            }
            if urgent {
                return Ok(());
            }
            let seen = self.observe();
            if seen.pressed || seen.used > policy::HIGH_WATER {
                return Ok(());
            }
            let threshold = policy::idle_threshold(seen.used);
            // Right after a pause, a single request makes destaging wait for another whole threshold.
            if seen.idle >= threshold {
                return Ok(());
            }
            let began = self.rt.now();
            self.wait_unless_urgent(threshold - seen.idle).await;
            let waited = self.rt.now().since(began);
            self.pace.borrow_mut().stood_back(waited);
        }
    }

    /// Returns how long a write must wait, so that writers and destaging reach the same rate before the log is full.
    /// `None` if writers are not paced.
    pub(crate) fn pace_wait(&self) -> Option<Duration> {
        let Some(multiple) = policy::pace(self.used_soon()) else {
            self.pace.borrow_mut().forgive();
            return None;
        };
        Some(self.pace.borrow_mut().wait(multiple, self.rt.now()))
    }

    /// Charges an admitted write against the pace.
    pub(crate) fn take(&self, wanted: SpaceDemand) {
        let bytes = wanted.bytes + wanted.entries * ENTRY_BYTES;
        let segment_bytes = self.log.ring().segment_bytes;
        let head = self.log.head();
        self.pace.borrow_mut().take(bytes, head, segment_bytes);
    }

    /// Waits until the pace admits the next writer, and checks again as the log empties.
    ///
    /// If each write waits until it is in the log, writes admitted one by one would take a record each. The header
    /// would be as long as the data. So if several writes are queued, they are admitted together.
    pub(crate) async fn keep_pace(&self) {
        let end = self.rt.now().plus(PACED_MAX);
        while !self.is_closing() && self.log.failure().is_none() && self.rt.now() < end {
            let progress = self.log.progress();
            let together = self.options.acknowledge > AckMode::Memory;
            if together && self.pace.borrow().in_bunch() {
                return;
            }
            let Some(wait) = self.pace_wait().filter(|wait| !wait.is_zero()) else {
                if together && self.activity.borrow().queued() > 1 {
                    self.pace.borrow_mut().begin_bunch();
                }
                return;
            };
            let sleep = self.rt.sleep(wait.clamp(PACE_GRAIN, PACE_AGAIN));
            let settled = self.signals.settled.listen();
            select(sleep, select(settled, progress)).await;
        }
    }
}
