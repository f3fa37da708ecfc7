//! Yielding: destaging lets clients go first while the log has free space.
//!
//! A disk has one queue, so each new request waits behind those under way. While the log has free space, destaging lets
//! clients go first, and limits its requests under way to what clients may wait for (`state/speed.rs` computes the
//! limit). When the log is nearly full, writers wait instead (`admission`). `policy.rs` has the thresholds and times.

use std::time::Duration;

use forebay_device::{DeviceError, DeviceOp, Result};
use futures_util::future::select;

use crate::engine::DcdEngine;
use crate::policy;

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
            pressed: self.admission.is_starved() || self.activity.borrow().is_draining(),
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
            self.admission.pace.borrow_mut().stood_back(waited);
        }
    }
}
