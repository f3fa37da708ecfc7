//! The ring: the executor's thread submits work to the kernel here and waits for it.
//!
//! Tasks push requests to the submission queue. One system call submits all of them when the executor has nothing else
//! to do ([`Driver::turn`]), or when the queue is full. That same call waits for the next completion.
//!
//! Only the thread that created the ring uses it (it is not `Send`). So the kernel can omit its own locking
//! (`SINGLE_ISSUER`) and run completion work only while this thread is in a waiting call (`DEFER_TASKRUN`), without
//! interrupting it.
#![allow(
    unsafe_code,
    reason = "pushes entries whose memory the kernel uses; see `Ring::start`"
)]

mod fuse_entries;
mod polling;
mod queue;
mod reports;
mod request;
mod setup;
mod slot;
mod unpark;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant as StdInstant};

use forebay_rt::{Driver, DriverTurn, Instant, Unpark, WaitLimit};
use io_uring::{opcode, squeue, types};
use slab::Slab;

pub use self::fuse_entries::{FuseEntries, FuseEntry, FuseMessage};
use self::polling::{PollPacing, STEP_MAX, WaitOutcome};
use self::queue::{UringEntry, UringQueue};
use self::slot::HeldMemory;
pub(crate) use self::slot::SocketMessage;
use self::slot::{UringSlot, UringSlotState};
use self::unpark::Doorbell;

/// A file descriptor that a request can keep open until it completes.
pub type SharedFd = Rc<OwnedFd>;

/// Key of completions that are ignored: those of cancellations.
const KEY_IGNORED: u64 = u64::MAX;
/// Key of the read on the doorbell.
const KEY_DOORBELL: u64 = u64::MAX - 1;

/// Number of queued disk requests at which they are submitted even if other tasks can still run. A disk that gets its
/// requests a few at a time is kept busier than by one large batch after all completions are processed: a quarter more
/// requests per second at depth 32, for the same processor time. Sockets show no such gain.
const DISK_BATCH: usize = 8;

/// Time that a dropped ring waits for requests that the kernel still has. After that, the memory of those requests is
/// leaked, because the kernel may still write to it.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

/// The io_uring of one executor, which is also its clock. It is shared as `Rc<IoRing>`: with the executor as its driver,
/// and with everything that makes requests.
pub struct IoRing {
    queues: RefCell<UringQueues>,
    doorbell: Arc<Doorbell>,
    start: StdInstant,
}

struct UringQueues {
    uring: UringQueue,
    slots: Slab<UringSlot>,
    /// Entries for which the submission queue was full and could not be submitted.
    backlog: VecDeque<UringEntry>,
    /// Number of pushed entries whose completion has not been seen.
    in_flight: usize,
    /// Tasks to wake when the borrow ends; kept to reuse its memory.
    woken: Vec<Waker>,
    /// The kernel reads the doorbell's count into this. Boxed so that it can outlive the ring.
    doorbell_count: Box<[u8; 8]>,
    doorbell_armed: bool,
    polling: PollPacing,
}

impl IoRing {
    /// Creates a ring that accepts `entries` requests (rounded up to a power of two) between two system calls; any
    /// number may be in flight. Only the calling thread may use it.
    ///
    /// # Errors
    /// If the kernel has no io_uring, forbids it, or is too old (before Linux 5.11).
    pub fn new(entries: u32) -> io::Result<Rc<IoRing>> {
        let uring = setup::build(entries)?;
        Ok(Rc::new(IoRing {
            queues: RefCell::new(UringQueues {
                uring,
                slots: Slab::with_capacity(entries as usize),
                backlog: VecDeque::new(),
                in_flight: 0,
                woken: Vec::new(),
                doorbell_count: Box::default(),
                doorbell_armed: false,
                polling: PollPacing::default(),
            }),
            doorbell: Arc::new(Doorbell::new()?),
            start: StdInstant::now(),
        }))
    }

    /// Pushes a request. `hold` and `fd` are kept until it completes.
    ///
    /// # Safety
    /// All memory that `entry` points to must be owned by `hold`, at an address that does not change when `hold` is
    /// moved.
    unsafe fn start(
        self: &Rc<Self>,
        entry: squeue::Entry,
        hold: HeldMemory,
        fd: &SharedFd,
        on_drop: OnDrop,
    ) -> UringRequest {
        let mut queues = self.queues.borrow_mut();
        let key = queues.slots.insert(UringSlot {
            state: UringSlotState::Pending(None),
            hold,
            _fd: Rc::clone(fd),
            stays: on_drop == OnDrop::Stay,
        });
        // SAFETY: by the caller's guarantee the memory belongs to `hold`, which stays in its slot until the completion
        // is seen.
        unsafe { queues.push(entry.user_data(key as u64).into()) };
        if on_drop == OnDrop::Finish && queues.uring.queued() >= DISK_BATCH {
            queues.enter(0, None);
        }
        UringRequest {
            ring: Rc::clone(self),
            key: Some(key),
            on_drop,
        }
    }

    fn wait_for(&self, wait: WaitLimit) -> Option<Option<Duration>> {
        match wait {
            WaitLimit::No => None,
            WaitLimit::Forever => Some(None),
            WaitLimit::Until(at) => {
                let left = at.since(self.now());
                (!left.is_zero()).then_some(Some(left))
            }
        }
    }
}

impl Driver for IoRing {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    fn turn(&self, wait: WaitLimit) -> DriverTurn {
        let mut queues = self.queues.borrow_mut();
        let seen = queues.reap();
        match self.wait_for(wait).filter(|_| seen == 0) {
            None => queues.submit_if_needed(),
            Some(timeout) => {
                queues.arm_doorbell(&self.doorbell);
                let (began, look) = (StdInstant::now(), queues.polling.look());
                let look = timeout.map_or(look, |timeout| look.min(timeout));
                let looked = queues.look(&self.doorbell, began, look);
                let waited = looked.unwrap_or_else(|| {
                    // Looking has used a part of the timeout.
                    match self.wait_for(wait) {
                        Some(left) if self.doorbell.begin_wait() => queues.submit_and_wait(left),
                        _ => queues.submit_if_needed(),
                    }
                    self.doorbell.end_wait();
                    WaitOutcome::Slept(began.elapsed())
                });
                queues.polling.note(waited);
            }
        }
        queues.reap();
        // A wake may drop a task and with it requests, which borrow the queues again.
        let mut woken = std::mem::take(&mut queues.woken);
        drop(queues);
        woken.drain(..).for_each(Waker::wake);
        self.queues.borrow_mut().woken = woken;
        self.doorbell.clear();
        DriverTurn::Progress
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::clone(&self.doorbell) as Arc<dyn Unpark>
    }
}

impl IoRing {
    /// For `time`, lets the kernel do work that it has deferred until this thread waits. A request whose worker was
    /// delayed after its completion keeps its file open until then.
    pub(crate) fn let_finish(&self, time: Duration) {
        let until = StdInstant::now() + time;
        self.queues.borrow_mut().submit_and_wait(Some(time));
        // The wait ends early if completions arrive, which are left for the next turn.
        std::thread::sleep(until.saturating_duration_since(StdInstant::now()));
    }
}

impl UringQueues {
    /// # Safety
    /// The memory that `entry` points to must stay valid until its completion is seen.
    unsafe fn push(&mut self, entry: UringEntry) {
        self.in_flight += 1;
        if self.backlog.is_empty() {
            // SAFETY: the caller's guarantee.
            if unsafe { self.uring.push(&entry) } {
                return;
            }
            self.enter(0, None);
            // SAFETY: the caller's guarantee.
            if unsafe { self.uring.push(&entry) } {
                return;
            }
        }
        self.backlog.push_back(entry);
    }

    fn refill_from_backlog(&mut self) {
        while let Some(entry) = self.backlog.front() {
            // SAFETY: guaranteed when the entry was first pushed.
            if !unsafe { self.uring.push(entry) } {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// Submits queued entries and lets the kernel post deferred completions, if any.
    fn submit_if_needed(&mut self) {
        self.refill_from_backlog();
        if self.uring.wants_the_kernel() {
            self.enter(0, None);
        }
    }

    /// Looks for completions for `time`. Returns the result, or `None` if the thread should sleep now.
    fn look(
        &mut self,
        doorbell: &Doorbell,
        began: StdInstant,
        time: Duration,
    ) -> Option<WaitOutcome> {
        let mut last = began;
        while last.duration_since(began) < time {
            self.submit_if_needed();
            if self.reap() > 0 || doorbell.is_rung() {
                return Some(WaitOutcome::Found);
            }
            // Gives the processor to other threads that want it.
            std::thread::yield_now();
            let now = StdInstant::now();
            if now.duration_since(last) > STEP_MAX {
                self.polling.note(WaitOutcome::Disturbed);
                return None;
            }
            last = now;
        }
        None
    }

    fn submit_and_wait(&mut self, timeout: Option<Duration>) {
        self.refill_from_backlog();
        // Entries in the backlog must not wait for a completion.
        let want = usize::from(self.backlog.is_empty());
        self.enter(want, timeout);
    }

    /// Makes the system call.
    ///
    /// # Panics
    /// On an error that only a bug here can cause.
    fn enter(&mut self, want: usize, timeout: Option<Duration>) {
        let submitter = self.uring.submitter();
        let result = match timeout {
            None => submitter.submit_and_wait(want),
            Some(left) => {
                let time = types::Timespec::from(left);
                submitter.submit_with_args(want, &types::SubmitArgs::new().timespec(&time))
            }
        };
        let Err(error) = result else { return };
        match error.raw_os_error() {
            // The time is up, or a signal arrived. The executor checks its timers either way.
            Some(libc::ETIME | libc::EINTR) => {}
            // The kernel lacks memory for requests, or too many completions are unseen. Both are temporary: the entries
            // stay in the queue, and the next turn sees completions first.
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => std::thread::yield_now(),
            _ => panic!("io_uring_enter failed: {error}"),
        }
    }

    /// Records all available completions, and returns their number.
    fn reap(&mut self) -> usize {
        let mut seen = 0;
        while let Some(completion) = self.uring.next_completion() {
            seen += 1;
            self.in_flight -= 1;
            match completion.user_data() {
                KEY_IGNORED => {}
                KEY_DOORBELL => self.doorbell_armed = false,
                key => {
                    let key = key as usize;
                    let slot = &mut self.slots[key];
                    match slot.complete(completion.result()) {
                        UringSlotState::Pending(Some(waker)) => self.woken.push(waker),
                        UringSlotState::Orphaned => self.slots.remove(key).discard(),
                        UringSlotState::Told => self.woken.extend(self.slots.remove(key).tell()),
                        UringSlotState::Pending(None) | UringSlotState::Done(_) => {}
                    }
                }
            }
        }
        seen
    }

    fn arm_doorbell(&mut self, doorbell: &Doorbell) {
        if self.doorbell_armed {
            return;
        }
        self.doorbell_armed = true;
        let count = self.doorbell_count.as_mut_ptr();
        let entry = opcode::Read::new(types::Fd(doorbell.fd().as_raw_fd()), count, 8).build();
        // SAFETY: the box lives as long as the queues, and is leaked with them if necessary.
        unsafe { self.push(entry.user_data(KEY_DOORBELL).into()) };
    }

    /// Returns the number of pending requests that use no memory and end with the ring.
    fn staying(&self) -> usize {
        let stays = |slot: &UringSlot| slot.stays && !matches!(slot.state, UringSlotState::Done(_));
        self.slots.iter().filter(|(_, slot)| stays(slot)).count()
    }

    /// Asks the kernel to cancel the request `key`.
    fn cancel(&mut self, key: usize) {
        let entry = opcode::AsyncCancel::new(key as u64).build();
        // SAFETY: a cancellation points to no memory.
        unsafe { self.push(entry.user_data(KEY_IGNORED).into()) };
    }
}

impl Drop for IoRing {
    fn drop(&mut self) {
        let deadline = StdInstant::now() + DRAIN_PATIENCE;
        let queues = self.queues.get_mut();
        // Every request holds the ring, so the remaining requests are orphaned, or belong to the doorbell.
        let orphans = queues.slots.iter().filter(|(_, slot)| !slot.stays);
        let orphans: Vec<usize> = orphans.map(|(key, _)| key).collect();
        for key in orphans {
            queues.cancel(key);
        }
        if queues.doorbell_armed {
            queues.cancel(KEY_DOORBELL as usize);
        }
        while queues.in_flight > queues.staying() {
            let left = deadline.saturating_duration_since(StdInstant::now());
            if left.is_zero() {
                break;
            }
            queues.submit_and_wait(Some(left));
            queues.reap();
        }
        let left = queues.in_flight - queues.staying();
        // A driver can fill its entries until this thread ends, and then it is too late to see a completion.
        let mut slots = queues.slots.iter();
        let told = slots.any(|(_, slot)| matches!(slot.state, UringSlotState::Told));
        if told && left == 0 {
            std::mem::forget(std::mem::take(&mut queues.slots));
        }
        if left > 0 {
            tracing::warn!(
                requests = left,
                "the kernel still works on requests of a closed ring; their memory stays allocated"
            );
            std::mem::forget(std::mem::take(&mut queues.slots));
            Box::leak(std::mem::take(&mut queues.doorbell_count));
        }
    }
}

/// Treatment of a request whose future is dropped before it completed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnDrop {
    /// The request continues. Used for disks, which will answer, and must not be left half-written needlessly.
    Finish,
    /// The request is cancelled. Used for events that may never come: a connection, a byte, a signal.
    Cancel,
    /// The request stays, even when the ring is closed, and the ring does not wait for it. Used for requests that
    /// cannot be cancelled and use no memory. Their driver ends them when the ring is gone.
    Stay,
}

/// A request in progress. Resolves to the kernel's result and the held memory.
struct UringRequest {
    ring: Rc<IoRing>,
    /// `None` once the result is taken.
    key: Option<usize>,
    on_drop: OnDrop,
}

impl Future for UringRequest {
    type Output = (io::Result<u32>, HeldMemory);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let key = self.key.expect("a request is not polled after its end");
        let mut queues = self.ring.queues.borrow_mut();
        match &mut queues.slots[key].state {
            UringSlotState::Done(result) => {
                let result = match *result {
                    n if n >= 0 => Ok(n as u32),
                    errno => Err(io::Error::from_raw_os_error(-errno)),
                };
                let hold = queues.slots.remove(key).hold;
                drop(queues);
                self.key = None;
                Poll::Ready((result, hold))
            }
            UringSlotState::Pending(Some(waker)) if waker.will_wake(cx.waker()) => Poll::Pending,
            state => {
                let before =
                    std::mem::replace(state, UringSlotState::Pending(Some(cx.waker().clone())));
                // The last waker of another task may drop requests, which borrow the queues.
                drop(queues);
                drop(before);
                Poll::Pending
            }
        }
    }
}

impl Drop for UringRequest {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut queues = self.ring.queues.borrow_mut();
        let was = std::mem::replace(&mut queues.slots[key].state, UringSlotState::Orphaned);
        let left = match was {
            UringSlotState::Done(result) => {
                let mut slot = queues.slots.remove(key);
                slot.state = UringSlotState::Done(result);
                Some(slot)
            }
            UringSlotState::Pending(_) | UringSlotState::Orphaned | UringSlotState::Told => {
                if self.on_drop == OnDrop::Cancel {
                    queues.cancel(key);
                }
                None
            }
        };
        drop(queues);
        if let Some(slot) = left {
            slot.discard();
        }
    }
}
