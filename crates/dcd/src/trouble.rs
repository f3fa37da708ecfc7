//! What waits while a device fails, and for how long.
//!
//! A failure is tried again for as long as it takes, since what failed once may work the next time,
//! and what cannot be read now may be read later. Those who wait for it are patient for a while,
//! counted from when the trouble began and not from when they came, and then get an error until it is
//! over: nobody waits twice for what is known not to answer.

use std::sync::Arc;
use std::time::Duration;

use forebay_device::DeviceError;
use forebay_rt::Instant;
use futures_util::future::{Either, select};

use crate::engine::Engine;

impl Engine {
    /// The data device failed to do what destaging or the rescue needs.
    pub(crate) fn data_fails(&self, error: &DeviceError) {
        self.counters.borrow_mut().data_errors += 1;
        let cause = format!("the data device fails: {error}");
        self.data_trouble.goes_on(self.rt.now(), cause);
        self.log.notify();
        self.settled.notify_all();
    }

    /// The log device failed to give back what it holds, or to take what it is told.
    pub(crate) fn log_troubles(&self, cause: String) {
        self.log_trouble.goes_on(self.rt.now(), cause);
        self.log.notify();
        self.settled.notify_all();
    }

    /// When patience with the oldest trouble ends, and what it is.
    fn patience_ends(&self) -> Option<(Instant, Arc<str>)> {
        let patience = self.options.patience;
        let troubles = [&self.data_trouble, &self.log_trouble];
        let ends = troubles.map(|trouble| trouble.ends_patience(patience));
        let closing = self.closing.get().map(|at| {
            let cause = "the volume is being closed".into();
            (at.plus(patience), cause)
        });
        let ends = ends.into_iter().flatten().chain(closing);
        ends.min_by_key(|(at, _)| *at)
    }

    /// Waits until a trouble has lasted for longer than anybody should wait for its end, which may
    /// never be; gives its cause.
    pub(crate) async fn trouble_lasts(&self) -> Arc<str> {
        loop {
            let settled = self.settled.listen();
            match self.patience_ends() {
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
        select(self.rt.sleep(span), self.again.listen()).await;
    }
}
