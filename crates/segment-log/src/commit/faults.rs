//! Failures of the device: the reaction of a commit, and the reports to its callers.
//!
//! Invariants of a commit that tries again:
//! - Each failed write and each failed flush is tried again until it succeeds or the workers are dropped. The pauses
//!   between tries double.
//! - After a failed flush, data that was not durable before becomes durable only by another write, followed by a
//!   successful flush that began afterwards.
//! - A fault is present while a failed write has not succeeded, or while the newest flush has failed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::Instant;
use forebay_units::RecordSeq;

use super::CommitPipeline;
use super::composer::{RecordComposer, WriteWatcher};
use crate::log_error::LogError;

/// Reaction to a failed write or flush of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFailure {
    /// The first failure is latched: nothing is acknowledged afterwards.
    Latch,
    /// The request is tried again for as long as the device fails; nothing is latched.
    Retry {
        /// Pause before the second try.
        first: Duration,
        /// Longest pause. Each pause is twice as long as the pause before.
        most: Duration,
    },
}

impl OnFailure {
    /// Tries again after 10 ms, and at least once a second.
    pub const RETRY: OnFailure = OnFailure::Retry {
        first: Duration::from_millis(10),
        most: Duration::from_secs(1),
    };
}

/// A fault of the device that has not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceFault {
    /// The first failure since the device last worked.
    pub since: Instant,
    /// Cause of the newest failure.
    pub cause: Arc<str>,
}

/// Reason why a wait for the device ended without success.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WaitError {
    /// A failure is latched.
    #[error(transparent)]
    Failed(#[from] LogError),
    /// The device has been failing for longer than the caller's patience. The work goes on in the background.
    #[error("the log device has been failing for {:.1} s and is tried again: {cause}", .lasted.as_secs_f64())]
    Failing {
        /// Time since the first failure.
        lasted: Duration,
        /// Cause of the newest failure.
        cause: Arc<str>,
    },
    /// The workers of the log were dropped.
    #[error("the log was stopped before all data was on the device")]
    Stopped,
}

impl From<WaitError> for LogError {
    fn from(error: WaitError) -> LogError {
        match error {
            WaitError::Failed(failure) => failure,
            other => LogError::Failed(other.to_string().into()),
        }
    }
}

/// Pauses between tries.
#[derive(Clone, Copy)]
pub(super) struct RetryBackoff {
    next: Duration,
    most: Duration,
}

impl RetryBackoff {
    /// Creates pauses that begin with `first`, but at least one millisecond, so that pauses grow.
    pub(super) fn new(first: Duration, most: Duration) -> RetryBackoff {
        let least = Duration::from_millis(1);
        let (next, most) = (first.max(least), most.max(least));
        RetryBackoff { next, most }
    }

    /// Returns the next pause.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next.min(self.most);
        self.next = pause.saturating_mul(2);
        pause
    }
}

/// Failures that no success has ended yet.
#[derive(Default)]
pub(super) struct CommitFaults {
    /// Writes that failed and are tried again.
    writes: Cell<usize>,
    /// The time of the next try if the newest flush failed, and the pauses after that try.
    flush: Cell<Option<(Instant, RetryBackoff)>>,
    current: RefCell<Option<DeviceFault>>,
    failed_flushes: Cell<u64>,
}

impl CommitFaults {
    fn failed(&self, now: Instant, cause: &str) {
        let mut current = self.current.borrow_mut();
        if let Some(fault) = &mut *current {
            fault.cause = cause.into();
        } else {
            tracing::warn!(cause, "the device of the log fails; will retry");
            let (since, cause) = (now, cause.into());
            *current = Some(DeviceFault { since, cause });
        }
    }

    fn worked(&self, now: Instant) {
        if self.writes.get() > 0 || self.flush.get().is_some() {
            return;
        }
        if let Some(fault) = self.current.take() {
            let lasted_ms = now.since(fault.since).as_millis() as u64;
            tracing::info!(lasted_ms, "the device of the log works again");
        }
    }
}

impl<C: RecordComposer, W: WriteWatcher<C>> CommitPipeline<C, W> {
    /// Returns the present fault of the device. `None` if the device works or failures are latched.
    pub fn fault(&self) -> Option<DeviceFault> {
        self.faults.current.borrow().clone()
    }

    /// Returns the number of failed flushes. A caller that writes past the log compares the number before its first
    /// write with the number after its own successful flush. If a flush failed in between, the device may have dropped
    /// the writes, and the caller must write again.
    pub fn flush_failures(&self) -> u64 {
        self.faults.failed_flushes.get()
    }

    /// Records that the device failed to make earlier writes durable, and the cause. Must also be called after a failed
    /// write of the caller's own with [`forebay_device::Durability::Fua`], since a device may implement such a write by
    /// a flush.
    ///
    /// Afterwards, a commit that latches has failed. Any other commit writes everything again that is not known to be
    /// durable, and flushes, in the background. Returns the error for the caller.
    pub fn flush_failed(self: &Rc<Self>, cause: &str) -> LogError {
        let failures = &self.faults.failed_flushes;
        failures.set(failures.get() + 1);
        let OnFailure::Retry { first, most } = self.on_failure else {
            return self.fail(cause);
        };
        let now = self.rt.now();
        let earlier = self.faults.flush.get().map(|(_, backoff)| backoff);
        let mut backoff = earlier.unwrap_or(RetryBackoff::new(first, most));
        let until = now.plus(backoff.pause());
        self.faults.flush.set(Some((until, backoff)));
        self.faults.failed(now, cause);
        self.composer_mut().flight_mut().flush_failed();
        self.work.notify_all();
        if !self.has_ended() {
            self.start_round();
        }
        self.notify_waiters();
        LogError::Failed(cause.into())
    }

    pub(super) fn flush_worked(&self) {
        self.faults.flush.set(None);
        self.faults.worked(self.rt.now());
    }

    /// Records that a write failed. The caller tries it again.
    pub(super) fn write_failed(&self, cause: &str) {
        self.faults.writes.set(self.faults.writes.get() + 1);
        self.faults.failed(self.rt.now(), cause);
        self.notify_waiters();
    }

    /// Records that another try of a failed write failed.
    pub(super) fn write_failed_again(&self, cause: &str) {
        self.faults.failed(self.rt.now(), cause);
    }

    /// Records that a write succeeded after a failure.
    pub(super) fn write_worked(&self) {
        self.faults.writes.set(self.faults.writes.get() - 1);
        self.faults.worked(self.rt.now());
    }

    /// Returns true if a failing write may belong to the records up to `target`.
    pub(super) fn fails_writes(&self, target: RecordSeq) -> bool {
        self.faults.writes.get() > 0 && self.composer().flight().written() < target
    }

    pub(super) fn fails_flushes(&self) -> bool {
        self.faults.flush.get().is_some()
    }

    /// Waits until the next try of a flush is due. Returns false if the commit ended first.
    pub(super) async fn pause_before_flush(&self) -> bool {
        loop {
            let (now, next) = (self.rt.now(), self.faults.flush.get());
            match next {
                Some((until, _)) if until > now => {
                    if !self.pause(until.since(now)).await {
                        return false;
                    }
                }
                _ => return true,
            }
        }
    }

    /// Waits for `span`. Returns false if the commit ended first.
    pub(super) async fn pause(&self, span: Duration) -> bool {
        let ended = self.failure.until(|| self.has_ended().then_some(()));
        self.rt.timeout(span, ended).await.is_err()
    }

    /// Returns the rest of a caller's patience, if a fault delays the caller's target.
    pub(super) fn patience_left(
        &self,
        patience: Option<Duration>,
        is_held_up: bool,
    ) -> Result<Option<Duration>, WaitError> {
        let (Some(patience), true, Some(fault)) = (patience, is_held_up, self.fault()) else {
            return Ok(None);
        };
        let lasted = self.rt.now().since(fault.since);
        match patience.checked_sub(lasted) {
            Some(left) if !left.is_zero() => Ok(Some(left)),
            _ => {
                let cause = fault.cause;
                Err(WaitError::Failing { lasted, cause })
            }
        }
    }
}
