//! Waiting for a change made by another task.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A condition variable for tasks of one executor.
///
/// It carries no state of its own. Take a [`EventListener`], check the state, then await the listener: a notification in
/// between is not lost. [`Event::until`] does this in a loop.
///
/// The cost of starting and stopping to listen does not depend on the number of listeners: thousands may wait for one
/// flush.
#[derive(Default)]
pub struct Event {
    /// Number of listeners created so far, and the number of those that were notified.
    begun: Cell<u64>,
    notified: Cell<u64>,
    /// Wakers of the waiting listeners, in order of creation.
    wakers: RefCell<BTreeMap<u64, Waker>>,
}

impl Event {
    /// Creates an event without listeners.
    pub fn new() -> Event {
        Event::default()
    }

    /// Starts to listen; see the type.
    pub fn listen(&self) -> EventListener<'_> {
        let id = self.begun.get();
        self.begun.set(id + 1);
        EventListener {
            event: self,
            id,
            waits: false,
        }
    }

    /// Wakes all current listeners, in the order of their creation.
    pub fn notify_all(&self) {
        self.notified.set(self.begun.get());
        // End the borrow before the wakes, which may run a drop that stops listening.
        let wakers = self.wakers.take();
        wakers.into_values().for_each(Waker::wake);
    }

    /// Waits until `ready` returns a value. Calls `ready` now and after every notification.
    pub async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(value) = ready() {
                return value;
            }
            self.listen().await;
        }
    }
}

/// A listener of an [`Event`]. Resolves at the first notification after its creation.
pub struct EventListener<'a> {
    event: &'a Event,
    id: u64,
    /// The event has this listener's waker.
    waits: bool,
}

impl EventListener<'_> {
    fn is_notified(&self) -> bool {
        self.id < self.event.notified.get()
    }
}

impl Future for EventListener<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_notified() {
            return Poll::Ready(());
        }
        self.waits = true;
        let waker = cx.waker().clone();
        // The replaced waker may be the last of a task; the drop of that task must not find the event borrowed.
        let _old = self.event.wakers.borrow_mut().insert(self.id, waker);
        Poll::Pending
    }
}

impl Drop for EventListener<'_> {
    fn drop(&mut self) {
        if self.waits && !self.is_notified() {
            let _waker = self.event.wakers.borrow_mut().remove(&self.id);
        }
    }
}
