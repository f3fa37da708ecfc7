//! What waits while a device fails, and for how long.
//!
//! A failure is tried again for as long as it takes, since what failed once may work the next time,
//! and what cannot be read now may be read later. Those who wait for it are patient for a while,
//! counted from when the trouble began and not from when they came, and then get an error until it is
//! over: nobody waits twice for what is known not to answer.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use forebay_device::DeviceError;
use futures_util::future::{Either, select};

use crate::engine::Engine;
use crate::pacing::Priority;
use crate::state::{Faults, Trouble};

/// What shows of a device while much is tried on it, one after the other: patience counts from the first
/// failure, and not from when everything has been tried, which may take very long.
///
/// A success ends the trouble, but for home writes of destaging: nobody has room by those until the whole
/// window is home, and of that what fails may be most.
pub(crate) struct Streak<'a> {
    engine: &'a Engine,
    trouble: fn(&mut Faults) -> &mut Trouble,
    what: &'static str,
    ends_by_success: bool,
    /// The trouble that goes on began here.
    began: Cell<bool>,
}

impl<'a> Streak<'a> {
    /// Of writes to the data device.
    pub(crate) fn of_home(engine: &'a Engine, priority: Priority) -> Streak<'a> {
        fn trouble(faults: &mut Faults) -> &mut Trouble {
            &mut faults.data
        }
        let ends_by_success = priority == Priority::Rescue;
        Streak::new(engine, trouble, "the data device fails", ends_by_success)
    }

    /// Of reads of the log.
    pub(crate) fn of_log(engine: &'a Engine, priority: Priority) -> Streak<'a> {
        fn trouble(faults: &mut Faults) -> &mut Trouble {
            &mut faults.log
        }
        let what = match priority {
            Priority::Rescue => "the failed log cannot be read",
            _ => "the log cannot be read",
        };
        Streak::new(engine, trouble, what, true)
    }

    fn new(
        engine: &'a Engine,
        trouble: fn(&mut Faults) -> &mut Trouble,
        what: &'static str,
        ends_by_success: bool,
    ) -> Streak<'a> {
        Streak {
            engine,
            trouble,
            what,
            ends_by_success,
            began: Cell::new(false),
        }
    }

    /// The device did what it was asked.
    pub(crate) fn worked(&self) {
        if self.ends_by_success && self.began.take() {
            (self.trouble)(&mut self.engine.faults.borrow_mut()).clear();
        }
    }

    /// It did not.
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

impl Engine {
    /// The data device failed to do what destaging or the rescue needs.
    pub(crate) fn data_fails(&self, error: &DeviceError) {
        self.counters.borrow_mut().data_errors += 1;
        let cause = format!("the data device fails: {error}");
        self.faults.borrow_mut().data.note(self.rt.now(), cause);
        self.log.notify();
        self.signals.settled.notify_all();
    }

    /// The log device failed to give back what it holds, or to take what it is told.
    pub(crate) fn log_troubles(&self, cause: String) {
        self.faults.borrow_mut().log.note(self.rt.now(), cause);
        self.log.notify();
        self.signals.settled.notify_all();
    }

    /// Waits until a trouble has lasted for longer than anybody should wait for its end, which may
    /// never be; gives its cause.
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

    /// Waits before something is tried again: `span`, or until somebody asks for it.
    pub(crate) async fn pause(&self, span: Duration) {
        select(self.rt.sleep(span), self.signals.again.listen()).await;
    }
}
