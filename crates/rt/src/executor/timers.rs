//! Tasks that wait for an instant.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::Rt;
use crate::Instant;

/// The timers of an executor, in the order of their instants; equal instants in the order of creation.
#[derive(Default)]
pub(super) struct TimerQueue {
    wakers: BTreeMap<(Instant, u64), Waker>,
    next_id: u64,
}

impl TimerQueue {
    pub(super) fn first(&self) -> Option<Instant> {
        self.wakers.keys().next().map(|(at, _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Waker> {
        let entry = self.wakers.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}

/// Waits until an instant. Created by [`Rt::sleep`] and [`Rt::sleep_until`].
pub struct SleepFuture {
    rt: Rt,
    until: Instant,
    id: Option<u64>,
}

impl SleepFuture {
    pub(super) fn new(rt: Rt, until: Instant) -> SleepFuture {
        SleepFuture {
            rt,
            until,
            id: None,
        }
    }
}

impl Future for SleepFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let done = self.rt.now() >= self.until;
        let (until, known) = (self.until, self.id);
        let mut timers = self.rt.timers().borrow_mut();
        if done {
            if let Some(id) = known {
                timers.wakers.remove(&(until, id));
            }
            return Poll::Ready(());
        }
        let id = known.unwrap_or(timers.next_id);
        if known.is_none() {
            timers.next_id += 1;
        }
        timers.wakers.insert((until, id), cx.waker().clone());
        drop(timers);
        self.id = Some(id);
        Poll::Pending
    }
}

impl Drop for SleepFuture {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.rt
                .timers()
                .borrow_mut()
                .wakers
                .remove(&(self.until, id));
        }
    }
}
