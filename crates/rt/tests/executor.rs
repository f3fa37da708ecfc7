//! The executor's guarantees, on a virtual clock.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay_rt::{
    Driver, DriverTurn, Event, Executor, Instant, RangeLock, TimeLimitError, Unpark, VirtualTime,
    WaitLimit,
};

fn virtual_executor() -> Executor {
    Executor::new(Rc::new(VirtualTime::new()))
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn sleeping_tasks_wake_in_time_order_and_the_virtual_clock_jumps_to_each_wake() {
    let executor = virtual_executor();
    let rt = executor.rt();
    let woken = Rc::new(RefCell::new(Vec::new()));
    let tasks: Vec<_> = [30, 10, 20, 10]
        .into_iter()
        .enumerate()
        .map(|(i, delay)| {
            let (rt, woken) = (rt.clone(), Rc::clone(&woken));
            rt.clone().spawn(async move {
                rt.sleep(ms(delay)).await;
                woken
                    .borrow_mut()
                    .push((i, rt.now().as_nanos() / 1_000_000));
            })
        })
        .collect();
    executor.block_on(async move {
        for task in tasks {
            task.await;
        }
    });
    assert_eq!(*woken.borrow(), [(1, 10), (3, 10), (2, 20), (0, 30)]);
}

#[test]
fn a_timeout_ends_at_its_instant_and_drops_its_future() {
    struct SetOnDrop(Rc<Cell<bool>>);
    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let executor = virtual_executor();
    let rt = executor.rt();
    let dropped = Rc::new(Cell::new(false));
    let guard = SetOnDrop(Rc::clone(&dropped));
    let result = executor.block_on(async move {
        let inner = rt.clone();
        let outcome = rt
            .timeout(ms(5), async move {
                let _guard = guard;
                inner.sleep(ms(50)).await;
            })
            .await;
        (outcome, rt.now())
    });
    assert_eq!(
        result,
        (Err(TimeLimitError), Instant::from_nanos(5_000_000))
    );
    assert!(dropped.get());
}

#[test]
fn a_notification_between_listening_and_awaiting_is_not_lost() {
    let executor = virtual_executor();
    let event = Rc::new(Event::new());
    executor.block_on(async move {
        let listener = event.listen();
        event.notify_all();
        listener.await;
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn waiting_for_an_event_that_cannot_occur_is_reported_as_a_deadlock() {
    let executor = virtual_executor();
    executor.block_on(async {
        Event::new().listen().await;
    });
}

#[test]
fn dropping_a_task_cancels_it_and_detaching_lets_it_run() {
    let executor = virtual_executor();
    let rt = executor.rt();
    let ran = Rc::new(RefCell::new(Vec::new()));
    let spawn = |name: &'static str| {
        let (rt, ran) = (rt.clone(), Rc::clone(&ran));
        rt.clone().spawn(async move {
            rt.sleep(ms(1)).await;
            ran.borrow_mut().push(name);
        })
    };
    drop(spawn("dropped"));
    spawn("detached").detach();
    let rt = rt.clone();
    executor.block_on(async move { rt.sleep(ms(2)).await });
    assert_eq!(*ran.borrow(), ["detached"]);
}

#[test]
fn overlapping_ranges_are_locked_in_order_of_arrival_and_others_do_not_wait() {
    let executor = virtual_executor();
    let rt = executor.rt();
    let lock = Rc::new(RangeLock::new());
    let log = Rc::new(RefCell::new(Vec::new()));
    let holders: Vec<_> = [("a", 0..10), ("b", 5..15), ("c", 20..30), ("d", 8..9)]
        .into_iter()
        .map(|(name, range)| {
            let (rt, lock, log) = (rt.clone(), Rc::clone(&lock), Rc::clone(&log));
            rt.clone().spawn(async move {
                let _guard = lock.lock(range).await;
                log.borrow_mut()
                    .push((name, rt.now().as_nanos() / 1_000_000));
                rt.sleep(ms(10)).await;
            })
        })
        .collect();
    executor.block_on(async move {
        for holder in holders {
            holder.await;
        }
    });
    assert_eq!(*log.borrow(), [("a", 0), ("c", 0), ("b", 10), ("d", 20)]);
}

#[test]
fn an_abandoned_claim_does_not_block_the_next_claim() {
    let executor = virtual_executor();
    let rt = executor.rt();
    executor.block_on(async move {
        let lock = Rc::new(RangeLock::new());
        let held = lock.lock(0..10).await;
        assert_eq!(
            rt.timeout(ms(1), lock.lock(5..20)).await.err(),
            Some(TimeLimitError)
        );
        let _other = lock.lock(15..20).await;
        drop(held);
        assert!(!lock.is_claimed(&(0..10)));
    });
}

/// A driver that waits by parking its thread, to test a wake from another thread.
struct ParkingDriver;

struct UnparkThread(std::thread::Thread);

impl Unpark for UnparkThread {
    fn unpark(&self) {
        self.0.unpark();
    }
}

impl Driver for ParkingDriver {
    fn now(&self) -> Instant {
        Instant::default()
    }

    fn turn(&self, wait: WaitLimit) -> DriverTurn {
        if wait != WaitLimit::No {
            std::thread::park();
        }
        DriverTurn::Progress
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::new(UnparkThread(std::thread::current()))
    }
}

#[test]
fn another_thread_can_wake_a_task() {
    let executor = Executor::new(Rc::new(ParkingDriver));
    let done = Arc::new(AtomicBool::new(false));
    let mut helper = None;
    executor.block_on(std::future::poll_fn(move |cx| {
        if done.load(Ordering::SeqCst) {
            return std::task::Poll::Ready(());
        }
        let (waker, done) = (cx.waker().clone(), Arc::clone(&done));
        helper.get_or_insert_with(|| {
            std::thread::spawn(move || {
                done.store(true, Ordering::SeqCst);
                waker.wake();
            })
        });
        std::task::Poll::Pending
    }));
}

/// Found by the simulator, which creates thousands of executors per second: a task that waited for an event of its own,
/// or for a timer, kept its executor and all referenced data alive for ever.
#[test]
fn dropping_an_executor_drops_its_waiting_tasks() {
    let held = Rc::new(());
    {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        let event = Rc::new(Event::new());
        let (waits, token) = (Rc::clone(&event), Rc::clone(&held));
        rt.spawn(async move {
            waits.listen().await;
            drop(token);
        })
        .detach();
        let (sleeper, token) = (rt.clone(), Rc::clone(&held));
        rt.spawn(async move {
            sleeper.sleep(Duration::from_secs(9)).await;
            drop(token);
        })
        .detach();
        drop(event);
        executor.block_on(async move { rt.sleep(Duration::from_secs(1)).await });
        assert_eq!(Rc::strong_count(&held), 3);
    }
    assert_eq!(Rc::strong_count(&held), 1);
}
