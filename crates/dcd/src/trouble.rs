//! Waiting while a device fails, and the end of patience.
//!
//! A failed operation is retried for as long as necessary, since it may succeed the next time, and unreadable data may
//! become readable. Tasks that depend on it wait until the patience ends, which is counted from the beginning of the
//! fault and not from the beginning of each wait. Then they get an error until the fault is over. So no task waits for
//! a device that is known not to answer.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use forebay_device::DeviceError;
use futures_util::future::{Either, select};

use crate::engine::DcdEngine;
use crate::state::{CacheFaults, DeviceFaultState};
use crate::yielding::WritebackPriority;

/// Observes the operations of one task on a device, so that a fault begins with the first failure. Without it, the
/// fault would begin only after all operations have been tried, which may take very long.
///
/// A success ends the fault, except for destaging's writes to the data device: these free no space until the whole
/// window is written, and most of the window may still fail.
pub(crate) struct FaultTracker<'a> {
    engine: &'a DcdEngine,
    trouble: fn(&mut CacheFaults) -> &mut DeviceFaultState,
    what: &'static str,
    ends_by_success: bool,
    /// True if this streak began the present fault.
    began: Cell<bool>,
}

impl<'a> FaultTracker<'a> {
    /// Observes writes to the data device.
    pub(crate) fn of_home(engine: &'a DcdEngine, priority: WritebackPriority) -> FaultTracker<'a> {
        fn trouble(faults: &mut CacheFaults) -> &mut DeviceFaultState {
            &mut faults.data
        }
        let ends_by_success = priority == WritebackPriority::Rescue;
        FaultTracker::new(engine, trouble, "the data device fails", ends_by_success)
    }

    /// Observes reads of the log.
    pub(crate) fn of_log(engine: &'a DcdEngine, priority: WritebackPriority) -> FaultTracker<'a> {
        fn trouble(faults: &mut CacheFaults) -> &mut DeviceFaultState {
            &mut faults.log
        }
        let what = match priority {
            WritebackPriority::Rescue => "the failed log cannot be read",
            _ => "the log cannot be read",
        };
        FaultTracker::new(engine, trouble, what, true)
    }

    fn new(
        engine: &'a DcdEngine,
        trouble: fn(&mut CacheFaults) -> &mut DeviceFaultState,
        what: &'static str,
        ends_by_success: bool,
    ) -> FaultTracker<'a> {
        FaultTracker {
            engine,
            trouble,
            what,
            ends_by_success,
            began: Cell::new(false),
        }
    }

    /// Records that the device completed an operation.
    pub(crate) fn worked(&self) {
        if self.ends_by_success && self.began.take() {
            (self.trouble)(&mut self.engine.faults.borrow_mut()).clear();
        }
    }

    /// Records that the device failed an operation.
    pub(crate) fn failed(&self, error: &DeviceError) {
        if self.engine.is_stopping() {
            return;
        }
        let mut faults = self.engine.faults.borrow_mut();
        let trouble = (self.trouble)(&mut faults);
        if trouble.cause().is_none() {
            trouble.note(self.engine.rt.now(), format!("{}: {error}", self.what));
            self.began.set(true);
            drop(faults);
            self.engine.log.notify();
            self.engine.signals.settled.notify_all();
        }
    }
}

impl DcdEngine {
    /// Records that the data device failed an operation of destaging or of the rescue.
    pub(crate) fn data_fails(&self, error: &DeviceError) {
        self.counters.borrow_mut().data_errors += 1;
        let cause = format!("the data device fails: {error}");
        self.faults.borrow_mut().data.note(self.rt.now(), cause);
        self.log.notify();
        self.signals.settled.notify_all();
    }

    /// Records that the log device failed to return data, or to take a superblock.
    pub(crate) fn log_troubles(&self, cause: String) {
        self.faults.borrow_mut().log.note(self.rt.now(), cause);
        self.log.notify();
        self.signals.settled.notify_all();
    }

    /// Waits until a fault has lasted longer than the configured patience, which may never happen. Returns the cause of
    /// the fault.
    pub(crate) async fn trouble_lasts(&self) -> Arc<str> {
        loop {
            let settled = self.signals.settled.listen();
            let closing = self.service.borrow().closing();
            let patience = self.options.patience;
            let ends = self.faults.borrow().patience_ends(patience, closing);
            match ends {
                Some((at, cause)) if at <= self.rt.now() => return cause,
                Some((at, _)) => {
                    let sleep = self.rt.sleep_until(at);
                    match select(sleep, settled).await {
                        Either::Left(_) | Either::Right(_) => {}
                    }
                }
                None => settled.await,
            }
        }
    }

    /// Waits before a retry: for `span`, or until a task requests the retry.
    pub(crate) async fn pause(&self, span: Duration) {
        select(self.rt.sleep(span), self.signals.again.listen()).await;
    }
}
