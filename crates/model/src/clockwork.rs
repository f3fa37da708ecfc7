//! Waiting for a model: its time passes as the clock does, and whoever gave it a command waits until that is
//! done.
//!
//! Invariants:
//! - The model is told of commands in the order of their time, and time passes for it up to a command's arrival
//!   before it is told of it.
//! - While the model has an event to come, the clockwork task sleeps no longer than until that event.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use forebay_rt::{Instant, Rt, Sleep, Task};
use slab::Slab;

/// A command of this number was done then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Done {
    pub(crate) id: u64,
    pub(crate) at: Instant,
}

/// What takes commands and says when they are done: state apart from waiting.
pub(crate) trait Model: 'static {
    /// When something next happens; `None` if nothing will.
    fn next_event(&self) -> Option<Instant>;

    /// Lets time pass up to `now`; adds what is done by then to `done`.
    fn advance(&mut self, now: Instant, done: &mut Vec<Done>);
}

/// A model, and the task in which its time passes.
pub(crate) struct Clockwork<M> {
    shared: Rc<Shared<M>>,
    /// Ends with this.
    _task: Task<()>,
}

struct Shared<M> {
    rt: Rt,
    state: RefCell<State<M>>,
}

struct State<M> {
    model: M,
    waiting: Slab<Waiting>,
    /// Wakes the clockwork, and until when it sleeps (`None`: until it is woken).
    clockwork: Option<Waker>,
    sleeps_until: Option<Instant>,
    /// Kept for their memory.
    done: Vec<Done>,
    woken: Vec<Waker>,
}

#[derive(Default)]
struct Waiting {
    done: Option<Instant>,
    waker: Option<Waker>,
    /// Nobody waits any more.
    orphaned: bool,
}

impl<M: Model> Clockwork<M> {
    pub(crate) fn new(rt: &Rt, model: M) -> Clockwork<M> {
        let shared = Rc::new(Shared {
            rt: rt.clone(),
            state: RefCell::new(State {
                model,
                waiting: Slab::new(),
                clockwork: None,
                sleeps_until: None,
                done: Vec::new(),
                woken: Vec::new(),
            }),
        });
        Clockwork {
            _task: rt.spawn(run(Rc::clone(&shared))),
            shared,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.shared.rt.now()
    }

    /// Looks at the model, as it was when it last was told or asked something.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        look(&self.shared.state.borrow().model)
    }

    /// Changes the model at once, by what takes no time.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut M) -> T) -> T {
        change(&mut self.shared.state.borrow_mut().model)
    }

    /// Gives the model a command, which arrives when the result is first polled; that resolves to
    /// when it was done.
    pub(crate) async fn command(&self, give: impl FnOnce(&mut M, Instant, u64)) -> Instant {
        let now = self.shared.rt.now();
        let key = self.shared.pass(now, |state| {
            let key = state.waiting.insert(Waiting::default());
            give(&mut state.model, now, key as u64);
            let next = state.model.next_event();
            let sleeps_past = |at| state.sleeps_until.is_none_or(|until| at < until);
            if next.is_some_and(sleeps_past) {
                state.woken.extend(state.clockwork.take());
            }
            key
        });
        let shared = &self.shared;
        Command { shared, key }.await
    }
}

/// Lets the model's time pass as the clock does, and wakes who waited.
async fn run<M: Model>(shared: Rc<Shared<M>>) {
    let mut sleep: Option<(Instant, Sleep)> = None;
    poll_fn(|cx| {
        loop {
            let now = shared.rt.now();
            let next = shared.pass(now, |state| {
                let next = state.model.next_event();
                state.sleeps_until = next;
                state.clockwork = Some(cx.waker().clone());
                next
            });
            let Some(at) = next else {
                sleep = None;
                return Poll::Pending;
            };
            if sleep.as_ref().is_none_or(|(until, _)| *until != at) {
                sleep = Some((at, shared.rt.sleep_until(at)));
            }
            let (_, timer) = sleep.as_mut().expect("just set");
            if Pin::new(timer).poll(cx).is_pending() {
                return Poll::Pending;
            }
            sleep = None;
        }
    })
    .await
}

impl<M: Model> Shared<M> {
    /// Lets time pass up to `now`, then does `then`, then wakes whose commands are done.
    fn pass<T>(&self, now: Instant, then: impl FnOnce(&mut State<M>) -> T) -> T {
        let mut state = self.state.borrow_mut();
        let State {
            model,
            waiting,
            done,
            woken,
            ..
        } = &mut *state;
        model.advance(now, done);
        for Done { id, at } in done.drain(..) {
            let key = id as usize;
            let entry = &mut waiting[key];
            entry.done = Some(at);
            woken.extend(entry.waker.take());
            if entry.orphaned {
                waiting.remove(key);
            }
        }
        let result = then(&mut state);
        // A wake may drop requests, which borrow the state again.
        let mut woken = std::mem::take(&mut state.woken);
        drop(state);
        woken.drain(..).for_each(Waker::wake);
        self.state.borrow_mut().woken = woken;
        result
    }
}

/// A command that the model has.
struct Command<'a, M> {
    shared: &'a Shared<M>,
    key: usize,
}

impl<M> Future for Command<'_, M> {
    type Output = Instant;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        let mut state = self.shared.state.borrow_mut();
        let entry = &mut state.waiting[self.key];
        match entry.done {
            Some(at) => Poll::Ready(at),
            None => {
                entry.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<M> Drop for Command<'_, M> {
    fn drop(&mut self) {
        let mut state = self.shared.state.borrow_mut();
        let entry = &mut state.waiting[self.key];
        let waker = entry.waker.take();
        match entry.done {
            Some(_) => drop(state.waiting.remove(self.key)),
            None => entry.orphaned = true,
        }
        // A waker may be the last hold on a task, whose requests borrow the state.
        drop(state);
        drop(waker);
    }
}
