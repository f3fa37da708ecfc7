//! The run loop: ready tasks first, then timers, then the driver.

mod timers;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use async_task::Runnable;
use futures_util::future::{Either, select};
use slab::Slab;

use crate::{Driver, DriverTurn, Instant, TimeLimitError, Unpark, WaitLimit};
pub use timers::SleepFuture;
use timers::TimerQueue;

/// A spawned task. Await it for its result; dropping it cancels it; [`Task::detach`] lets it run.
pub type Task<T> = async_task::Task<T>;

/// Number of tasks that run before timers and the driver are checked, so that a busy volume still gets its completions.
const TASKS_A_ROUND: usize = 64;

/// The part of an executor that other threads may access.
struct ReadyQueue {
    queue: Mutex<VecDeque<Runnable>>,
    parked: AtomicBool,
    unparker: Arc<dyn Unpark>,
}

impl ReadyQueue {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Runnable>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, task: Runnable) {
        self.queue().push_back(task);
        if self.parked.swap(false, Ordering::SeqCst) {
            self.unparker.unpark();
        }
    }
}

struct ExecutorState {
    driver: Rc<dyn Driver>,
    ready: Arc<ReadyQueue>,
    timers: RefCell<TimerQueue>,
    /// All tasks that have not ended, for ending them when the executor is dropped.
    tasks: RefCell<Slab<Waker>>,
}

/// Removes a task from the list when its future is dropped.
struct TaskListGuard {
    inner: Rc<ExecutorState>,
    key: usize,
}

impl Drop for TaskListGuard {
    fn drop(&mut self) {
        // The waker may be the last reference to the task; the drop of the task must not find the list borrowed.
        let waker = self.inner.tasks.borrow_mut().try_remove(self.key);
        drop(waker);
    }
}

/// A handle to the executor for its tasks: spawn, read the time, sleep.
#[derive(Clone)]
pub struct Rt(Rc<ExecutorState>);

/// The executor; its owner runs it.
pub struct Executor {
    rt: Rt,
}

impl Executor {
    /// Creates an executor that waits through `driver`.
    pub fn new(driver: Rc<dyn Driver>) -> Executor {
        let ready = Arc::new(ReadyQueue {
            queue: Mutex::default(),
            parked: AtomicBool::new(false),
            unparker: driver.unparker(),
        });
        Executor {
            rt: Rt(Rc::new(ExecutorState {
                driver,
                ready,
                timers: RefCell::default(),
                tasks: RefCell::default(),
            })),
        }
    }

    /// Returns a handle for the tasks of this executor.
    pub fn rt(&self) -> Rt {
        self.rt.clone()
    }

    /// Runs tasks until `future` is done, and returns its output. Other tasks keep their state and continue in the next
    /// call.
    ///
    /// # Panics
    /// If all tasks wait and the driver reports that no event is pending: a deadlock, which only a virtual clock can
    /// detect.
    pub fn block_on<F>(&self, future: F) -> F::Output
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let inner = &self.rt.0;
        // Boxed, so that a task is compiled once for each output type and not for each future type. This took most of
        // the compile time of the tests, which each run a future to its end.
        let future: Pin<Box<dyn Future<Output = F::Output>>> = Box::pin(future);
        let task = self.rt.spawn(future);
        while !task.is_finished() {
            for _ in 0..TASKS_A_ROUND {
                let Some(runnable) = inner.ready.queue().pop_front() else {
                    break;
                };
                runnable.run();
            }
            self.fire_timers();
            self.turn(task.is_finished());
        }
        // The output is ready; this poll only fetches it.
        let mut task = pin!(task);
        match task
            .as_mut()
            .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
        {
            std::task::Poll::Ready(output) => output,
            std::task::Poll::Pending => unreachable!("a finished task has its output"),
        }
    }

    fn fire_timers(&self) {
        if self.rt.0.timers.borrow().first().is_none() {
            return;
        }
        let now = self.rt.now();
        loop {
            // End the borrow before the wake, which may run a drop that accesses the timers.
            let due = self.rt.0.timers.borrow_mut().pop_due(now);
            match due {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }

    fn turn(&self, finished: bool) {
        let inner = &self.rt.0;
        inner.ready.parked.store(true, Ordering::SeqCst);
        let idle = inner.ready.queue().is_empty() && !finished;
        let first = inner.timers.borrow().first();
        let wait = match (idle, first) {
            (false, _) => WaitLimit::No,
            (true, Some(at)) => WaitLimit::Until(at),
            (true, None) => WaitLimit::Forever,
        };
        if !idle {
            inner.ready.parked.store(false, Ordering::SeqCst);
        }
        let turn = inner.driver.turn(wait);
        inner.ready.parked.store(false, Ordering::SeqCst);
        assert!(
            turn != DriverTurn::Stalled || !inner.ready.queue().is_empty(),
            "deadlock: every task waits, no timer is set and no I/O is under way"
        );
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // Tasks hold their futures, and the futures hold handles to this executor and to their wakers: break these
        // cycles. A woken task is queued, and a task taken from the queue without being run is cancelled.
        let inner = &self.rt.0;
        loop {
            let waiting = inner.tasks.take();
            waiting.into_iter().for_each(|(_, waker)| waker.wake());
            let queued = std::mem::take(&mut *inner.ready.queue());
            if queued.is_empty() {
                return;
            }
            drop(queued);
        }
    }
}

impl Rt {
    /// Starts a task. The task runs when the executor runs.
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let ready = Arc::clone(&self.0.ready);
        let mut tasks = self.0.tasks.borrow_mut();
        let listed = TaskListGuard {
            inner: Rc::clone(&self.0),
            key: tasks.vacant_key(),
        };
        let whole = async move {
            let _listed = listed;
            future.await
        };
        let (runnable, task) = async_task::spawn_local(whole, move |task| ready.push(task));
        tasks.insert(runnable.waker());
        drop(tasks);
        runnable.schedule();
        task
    }

    /// Returns the driver's time.
    pub fn now(&self) -> Instant {
        self.0.driver.now()
    }

    /// Waits for `span`.
    pub fn sleep(&self, span: Duration) -> SleepFuture {
        self.sleep_until(self.now().plus(span))
    }

    /// Waits until `at`.
    pub fn sleep_until(&self, at: Instant) -> SleepFuture {
        SleepFuture::new(self.clone(), at)
    }

    /// Lets all other ready tasks run once.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut yielded, true) {
                return std::task::Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
    }

    /// Waits for `future`, for at most `span`, and then drops it.
    ///
    /// # Errors
    /// [`TimeLimitError`] if the time ran out first.
    pub async fn timeout<F: Future>(
        &self,
        span: Duration,
        future: F,
    ) -> Result<F::Output, TimeLimitError> {
        let future = pin!(future);
        match select(future, self.sleep(span)).await {
            Either::Left((output, _)) => Ok(output),
            Either::Right(((), _)) => Err(TimeLimitError),
        }
    }

    fn timers(&self) -> &RefCell<TimerQueue> {
        &self.0.timers
    }
}
