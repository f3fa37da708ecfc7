//! Waiting for another task to say that something changed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A condition variable for tasks of one executor.
///
/// It carries no state of its own: take a [`Listener`], look at the state, then await the listener.
/// A notification between the two is not lost. [`Event::until`] does just that in a loop.
///
/// To begin and to give up listening costs the same however many listen: thousands may wait for one
/// flush.
#[derive(Default)]
pub struct Event {
    /// How many have begun to listen so far, and how many of those were notified.
    begun: Cell<u64>,
    notified: Cell<u64>,
    /// Those who wait, by when they began.
    wakers: RefCell<BTreeMap<u64, Waker>>,
}

impl Event {
    /// An event nobody waits for.
    pub fn new() -> Event {
        Event::default()
    }

    /// Begins to listen; see the type.
    pub fn listen(&self) -> Listener<'_> {
        let id = self.begun.get();
        self.begun.set(id + 1);
        Listener {
            event: self,
            id,
            waits: false,
        }
    }

    /// Wakes all who listen now, in the order they began to.
    pub fn notify_all(&self) {
        self.notified.set(self.begun.get());
        // The borrow ends before the wakes, which may run a drop that stops listening.
        let wakers = self.wakers.take();
        wakers.into_values().for_each(Waker::wake);
    }

    /// Waits until `ready` gives something, asking now and after every notification.
    pub async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(value) = ready() {
                return value;
            }
            self.listen().await;
        }
    }
}

/// One who listens to an [`Event`]. Resolves at the first notification after it was made.
pub struct Listener<'a> {
    event: &'a Event,
    id: u64,
    /// Its waker is with the event.
    waits: bool,
}

impl Listener<'_> {
    fn is_notified(&self) -> bool {
        self.id < self.event.notified.get()
    }
}

impl Future for Listener<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_notified() {
            return Poll::Ready(());
        }
        self.waits = true;
        let waker = cx.waker().clone();
        // The one it replaces may be the last of a task; its drop must not find this borrowed.
        let _old = self.event.wakers.borrow_mut().insert(self.id, waker);
        Poll::Pending
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        if self.waits && !self.is_notified() {
            let _waker = self.event.wakers.borrow_mut().remove(&self.id);
        }
    }
}
