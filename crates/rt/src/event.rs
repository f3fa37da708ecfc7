//! Waiting for another task to say that something changed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

#[derive(Default)]
struct Waiter {
    notified: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A condition variable for tasks of one executor.
///
/// It carries no state of its own: take a [`Listener`], look at the state, then await the listener.
/// A notification between the two is not lost. [`Event::until`] does just that in a loop.
#[derive(Default)]
pub struct Event {
    waiters: RefCell<VecDeque<Rc<Waiter>>>,
}

impl Event {
    /// An event nobody waits for.
    pub fn new() -> Event {
        Event::default()
    }

    /// Begins to listen; see the type.
    pub fn listen(&self) -> Listener<'_> {
        let waiter = Rc::new(Waiter::default());
        self.waiters.borrow_mut().push_back(Rc::clone(&waiter));
        Listener {
            event: self,
            waiter,
        }
    }

    /// Wakes all who listen now.
    pub fn notify_all(&self) {
        let waiters = std::mem::take(&mut *self.waiters.borrow_mut());
        for waiter in waiters {
            waiter.notified.set(true);
            if let Some(waker) = waiter.waker.take() {
                waker.wake();
            }
        }
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
    waiter: Rc<Waiter>,
}

impl Future for Listener<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.waiter.notified.get() {
            return Poll::Ready(());
        }
        *self.waiter.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        if !self.waiter.notified.get() {
            self.event
                .waiters
                .borrow_mut()
                .retain(|other| !Rc::ptr_eq(other, &self.waiter));
        }
    }
}
