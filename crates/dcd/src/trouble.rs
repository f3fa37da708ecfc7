//! What waits while a device fails, and for how long.
//!
//! A failure is tried again for as long as it takes, since what failed once may work the next time,
//! and what cannot be read now may be read later. Those who wait for it are patient for a while,
//! counted from when the trouble began and not from when they came, and then get an error until it is
//! over: nobody waits twice for what is known not to answer.

use std::sync::Arc;
use std::time::Duration;

use forebay_device::DeviceError;
use futures_util::future::{Either, select};

use crate::engine::Engine;

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
