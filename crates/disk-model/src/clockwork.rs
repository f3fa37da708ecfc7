//! Waiting for a model: the model's time follows the clock, and each command waits until the model has done it.
//!
//! Invariants:
//! - The model gets commands in the order of their time. Its time advances up to a command's arrival before it gets the
//!   command.
//! - While the model has a future event, the clockwork task sleeps at most until that event.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use forebay_rt::{Instant, Rt, SleepFuture, Task};
use slab::Slab;

/// Completion of the command with this number, at this time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CommandCompletion {
    pub(crate) id: u64,
    pub(crate) at: Instant,
}

/// A model that takes commands and computes their completion times: state without waiting.
pub(crate) trait ClockworkModel: 'static {
    /// Returns the time of the next event. `None` if the model has no future event.
    fn next_event(&self) -> Option<Instant>;

    /// Advances time to `now`; adds completed commands to `done`.
    fn advance(&mut self, now: Instant, done: &mut Vec<CommandCompletion>);
}

/// A model, and the task that advances its time.
pub(crate) struct Clockwork<M> {
    shared: Rc<ClockworkShared<M>>,
    /// Task that ends when this value is dropped.
    _task: Task<()>,
}

struct ClockworkShared<M> {
    rt: Rt,
    state: RefCell<ClockworkState<M>>,
}

struct ClockworkState<M> {
    model: M,
    waiting: Slab<WaitingCommand>,
    /// Waker of the clockwork task, and the end of its sleep (`None`: until it is woken).
    clockwork: Option<Waker>,
    sleeps_until: Option<Instant>,
    /// Buffers, kept to reuse their memory.
    done: Vec<CommandCompletion>,
    woken: Vec<Waker>,
}

#[derive(Default)]
struct WaitingCommand {
    done: Option<Instant>,
    waker: Option<Waker>,
    /// True if the command's future was dropped.
    orphaned: bool,
}

impl<M: ClockworkModel> Clockwork<M> {
    pub(crate) fn new(rt: &Rt, model: M) -> Clockwork<M> {
        let shared = Rc::new(ClockworkShared {
            rt: rt.clone(),
            state: RefCell::new(ClockworkState {
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

    /// Passes the model to `look`, in its state after the last command or event.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        look(&self.shared.state.borrow().model)
    }

    /// Changes the model immediately, without using time.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut M) -> T) -> T {
        change(&mut self.shared.state.borrow_mut().model)
    }

    /// Gives the model a command, which arrives when the returned future is first polled. Returns the time of
    /// completion.
    pub(crate) async fn command(&self, give: impl FnOnce(&mut M, Instant, u64)) -> Instant {
        let now = self.shared.rt.now();
        let key = self.shared.pass(now, |state| {
            let key = state.waiting.insert(WaitingCommand::default());
            give(&mut state.model, now, key as u64);
            let next = state.model.next_event();
            let sleeps_past = |at| state.sleeps_until.is_none_or(|until| at < until);
            if next.is_some_and(sleeps_past) {
                state.woken.extend(state.clockwork.take());
            }
            key
        });
        let shared = &self.shared;
        ClockworkCommand { shared, key }.await
    }
}

/// Advances the model's time with the clock, and wakes waiting commands.
async fn run<M: ClockworkModel>(shared: Rc<ClockworkShared<M>>) {
    let mut sleep: Option<(Instant, SleepFuture)> = None;
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
                return Poll::<()>::Pending;
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
    .await;
}

impl<M: ClockworkModel> ClockworkShared<M> {
    /// Advances time to `now`, then calls `then`, then wakes completed commands.
    fn pass<T>(&self, now: Instant, then: impl FnOnce(&mut ClockworkState<M>) -> T) -> T {
        let mut state = self.state.borrow_mut();
        let ClockworkState {
            model,
            waiting,
            done,
            woken,
            ..
        } = &mut *state;
        model.advance(now, done);
        for CommandCompletion { id, at } in done.drain(..) {
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

/// A command that was given to the model.
struct ClockworkCommand<'a, M> {
    shared: &'a ClockworkShared<M>,
    key: usize,
}

impl<M> Future for ClockworkCommand<'_, M> {
    type Output = Instant;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        let mut state = self.shared.state.borrow_mut();
        let entry = &mut state.waiting[self.key];
        if let Some(at) = entry.done {
            Poll::Ready(at)
        } else {
            entry.waker = Some(cx.waker().clone());
            Poll::Pending
        }
    }
}

impl<M> Drop for ClockworkCommand<'_, M> {
    fn drop(&mut self) {
        let mut state = self.shared.state.borrow_mut();
        let entry = &mut state.waiting[self.key];
        let waker = entry.waker.take();
        match entry.done {
            Some(_) => drop(state.waiting.remove(self.key)),
            None => entry.orphaned = true,
        }
        // A waker may hold the last reference to a task, whose requests borrow the state.
        drop(state);
        drop(waker);
    }
}
