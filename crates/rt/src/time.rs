//! Instants and timers.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::Rt;

/// A moment, in nanoseconds since the driver's own beginning (584 years fit).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// The instant `ns` nanoseconds after the beginning.
    pub const fn from_nanos(ns: u64) -> Instant {
        Instant(ns)
    }

    /// Nanoseconds since the beginning.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant `span` later; the far future if that cannot be represented.
    #[must_use]
    pub fn plus(self, span: Duration) -> Instant {
        Instant(
            self.0
                .saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)),
        )
    }

    /// The span since `earlier`; zero if that is later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The time given for something ran out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("time ran out")
    }
}

impl std::error::Error for Elapsed {}

/// The timers of an executor, in the order they fire; equal instants in the order they were set.
#[derive(Default)]
pub(crate) struct Timers {
    wakers: BTreeMap<(Instant, u64), Waker>,
    next_id: u64,
}

impl Timers {
    pub(crate) fn first(&self) -> Option<Instant> {
        self.wakers.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Waker> {
        let entry = self.wakers.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}

/// Waits until an instant has come. Made by [`Rt::sleep`] and [`Rt::sleep_until`].
pub struct Sleep {
    rt: Rt,
    until: Instant,
    id: Option<u64>,
}

impl Sleep {
    pub(crate) fn new(rt: Rt, until: Instant) -> Sleep {
        Sleep {
            rt,
            until,
            id: None,
        }
    }
}

impl Future for Sleep {
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

impl Drop for Sleep {
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
