//! The ring: where the executor's thread hands work to the kernel and waits for it.
//!
//! Requests are pushed to the submission queue as tasks make them and handed over in one system
//! call when the executor has nothing else to do ([`Driver::turn`]), or when the queue is full.
//! That same call waits for the next completion.
//!
//! The ring is used by the thread that made it and no other (it is not `Send`), which lets the
//! kernel leave out its own locking (`SINGLE_ISSUER`) and run completion work only while this
//! thread is in a waiting call (`DEFER_TASKRUN`), not by interrupting it.
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

use forebay_rt::{Driver, Instant, Turn, Unpark, Wait};
use io_uring::{opcode, squeue, types};
use slab::Slab;

pub use self::fuse_entries::{FuseEntries, FuseEntry, FuseRequest};
use self::polling::{Polling, STEP_MAX, Waited};
use self::queue::{Entry, Queue};
use self::slot::Hold;
pub(crate) use self::slot::Message;
use self::slot::{Slot, State};
use self::unpark::Doorbell;

/// A file descriptor that a request can keep open until it completes.
pub type Fd = Rc<OwnedFd>;

/// Completions nobody waits for: those of cancellations.
const KEY_IGNORED: u64 = u64::MAX;
/// The completion of the read on the doorbell.
const KEY_DOORBELL: u64 = u64::MAX - 1;

/// Disk requests are handed over when this many are queued, also if there are tasks yet to run. A
/// disk that gets its requests a few at a time is kept busier than by one large batch when all
/// completions are dealt with: a quarter more requests a second at depth 32, for the same processor
/// time. For sockets there is no such gain.
const DISK_BATCH: usize = 8;

/// How long a ring that is dropped waits for what the kernel still has. Past that the memory of
/// those requests is leaked: the kernel may yet write to it.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

/// The io_uring of one executor, which is also its clock. Share it as `Rc<Ring>`: with the executor
/// as its driver, and with everything that makes requests.
pub struct Ring {
    queues: RefCell<Queues>,
    doorbell: Arc<Doorbell>,
    start: StdInstant,
}

struct Queues {
    uring: Queue,
    slots: Slab<Slot>,
    /// Entries that found the submission queue full and the kernel unwilling.
    backlog: VecDeque<Entry>,
    /// Entries pushed whose completion has not been seen.
    in_flight: usize,
    /// Tasks to wake when the borrow ends; kept for its memory.
    woken: Vec<Waker>,
    /// Where the kernel puts what it read from the doorbell. Boxed so that it can outlive the ring.
    doorbell_count: Box<[u8; 8]>,
    doorbell_armed: bool,
    polling: Polling,
}

impl Ring {
    /// A ring that takes `entries` requests (rounded up to a power of two) between two system
    /// calls; any number may be in flight. The calling thread is the one that must use it.
    ///
    /// # Errors
    /// If the kernel has no io_uring, forbids it, or is too old (before Linux 5.11).
    pub fn new(entries: u32) -> io::Result<Rc<Ring>> {
        let uring = setup::build(entries)?;
        Ok(Rc::new(Ring {
            queues: RefCell::new(Queues {
                uring,
                slots: Slab::with_capacity(entries as usize),
                backlog: VecDeque::new(),
                in_flight: 0,
                woken: Vec::new(),
                doorbell_count: Box::default(),
                doorbell_armed: false,
                polling: Polling::default(),
            }),
            doorbell: Arc::new(Doorbell::new()?),
            start: StdInstant::now(),
        }))
    }

    /// Pushes a request. `hold` and `fd` are kept until it completes.
    ///
    /// # Safety
    /// Whatever memory `entry` points to must be owned by `hold`, at an address that does not
    /// change when `hold` is moved.
    unsafe fn start(
        self: &Rc<Self>,
        entry: squeue::Entry,
        hold: Hold,
        fd: &Fd,
        on_drop: OnDrop,
    ) -> Request {
        let mut queues = self.queues.borrow_mut();
        let key = queues.slots.insert(Slot {
            state: State::Pending(None),
            hold,
            _fd: Rc::clone(fd),
            stays: on_drop == OnDrop::Stay,
        });
        // SAFETY: by the caller's promise the memory belongs to `hold`, which stays in its slot
        // until the completion is seen.
        unsafe { queues.push(entry.user_data(key as u64).into()) };
        if on_drop == OnDrop::Finish && queues.uring.queued() >= DISK_BATCH {
            queues.enter(0, None);
        }
        Request {
            ring: Rc::clone(self),
            key: Some(key),
            on_drop,
        }
    }

    fn wait_for(&self, wait: Wait) -> Option<Option<Duration>> {
        match wait {
            Wait::No => None,
            Wait::Forever => Some(None),
            Wait::Until(at) => {
                let left = at.since(self.now());
                (!left.is_zero()).then_some(Some(left))
            }
        }
    }
}

impl Driver for Ring {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    fn turn(&self, wait: Wait) -> Turn {
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
                    // Less is left than there was before the look.
                    match self.wait_for(wait) {
                        Some(left) if self.doorbell.begin_wait() => queues.submit_and_wait(left),
                        _ => queues.submit_if_needed(),
                    }
                    self.doorbell.end_wait();
                    Waited::Slept(began.elapsed())
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
        Turn::Progress
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::clone(&self.doorbell) as Arc<dyn Unpark>
    }
}

impl Ring {
    /// For `time`, lets the kernel do what it has put off until this thread waits. A request whose
    /// worker was held up after its completion keeps its file open until then.
    pub(crate) fn let_finish(&self, time: Duration) {
        let until = StdInstant::now() + time;
        self.queues.borrow_mut().submit_and_wait(Some(time));
        // It comes back early if there are completions, which are for the next turn.
        std::thread::sleep(until.saturating_duration_since(StdInstant::now()));
    }
}

impl Queues {
    /// # Safety
    /// What `entry` points to must stay valid until its completion is seen.
    unsafe fn push(&mut self, entry: Entry) {
        self.in_flight += 1;
        if self.backlog.is_empty() {
            // SAFETY: the caller's promise.
            if unsafe { self.uring.push(&entry) } {
                return;
            }
            self.enter(0, None);
            // SAFETY: the caller's promise.
            if unsafe { self.uring.push(&entry) } {
                return;
            }
        }
        self.backlog.push_back(entry);
    }

    fn refill_from_backlog(&mut self) {
        while let Some(entry) = self.backlog.front() {
            // SAFETY: promised when the entry was first pushed.
            if !unsafe { self.uring.push(entry) } {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// Hands over what is queued and lets the kernel post what it has put off, if there is any.
    fn submit_if_needed(&mut self) {
        self.refill_from_backlog();
        if self.uring.wants_the_kernel() {
            self.enter(0, None);
        }
    }

    /// Looks for completions for so long. Returns what ended it, or nothing if the thread is to sleep now.
    fn look(&mut self, doorbell: &Doorbell, began: StdInstant, time: Duration) -> Option<Waited> {
        let mut last = began;
        while last.duration_since(began) < time {
            self.submit_if_needed();
            if self.reap() > 0 || doorbell.is_rung() {
                return Some(Waited::Found);
            }
            // Whoever else wants this processor gets it here.
            std::thread::yield_now();
            let now = StdInstant::now();
            if now.duration_since(last) > STEP_MAX {
                self.polling.note(Waited::Disturbed);
                return None;
            }
            last = now;
        }
        None
    }

    fn submit_and_wait(&mut self, timeout: Option<Duration>) {
        self.refill_from_backlog();
        // What is in the backlog must not wait for a completion.
        let want = usize::from(self.backlog.is_empty());
        self.enter(want, timeout);
    }

    /// The system call.
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
            // The time is up; or a signal came. The executor looks at its timers either way.
            Some(libc::ETIME | libc::EINTR) => {}
            // No memory for requests, or too many completions unseen. Both pass: the entries stay
            // in the queue, and the next turn sees completions first.
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => std::thread::yield_now(),
            _ => panic!("io_uring_enter failed: {error}"),
        }
    }

    /// Notes all completions there are, and returns how many.
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
                        State::Pending(Some(waker)) => self.woken.push(waker),
                        State::Orphaned => self.slots.remove(key).discard(),
                        State::Told => self.woken.extend(self.slots.remove(key).tell()),
                        State::Pending(None) | State::Done(_) => {}
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
        // SAFETY: the box lives as long as the queues, and is leaked with them if it must be.
        unsafe { self.push(entry.user_data(KEY_DOORBELL).into()) };
    }

    /// How many requests use no memory and end when the ring does.
    fn staying(&self) -> usize {
        let stays = |slot: &Slot| slot.stays && !matches!(slot.state, State::Done(_));
        self.slots.iter().filter(|(_, slot)| stays(slot)).count()
    }

    /// Asks the kernel to give up the request `key`.
    fn cancel(&mut self, key: usize) {
        let entry = opcode::AsyncCancel::new(key as u64).build();
        // SAFETY: a cancellation points to no memory.
        unsafe { self.push(entry.user_data(KEY_IGNORED).into()) };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let deadline = StdInstant::now() + DRAIN_PATIENCE;
        let queues = self.queues.get_mut();
        // Every request holds the ring, so all that is left is orphaned, or the doorbell's.
        let orphans = queues.slots.iter().filter(|(_, slot)| !slot.stays);
        let orphans: Vec<usize> = orphans.map(|(key, _)| key).collect();
        orphans.into_iter().for_each(|key| queues.cancel(key));
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
        // What a driver was told to fill is filled while this thread lives, and no longer: by then it is too late to see it.
        let mut slots = queues.slots.iter();
        let told = slots.any(|(_, slot)| matches!(slot.state, State::Told));
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

/// What becomes of a request whose future is dropped before it completed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnDrop {
    /// It goes on. For disks, which will answer, and must not be left half-written needlessly.
    Finish,
    /// It is cancelled. For what may never come: a connection, a byte, a signal.
    Cancel,
    /// It stays as it is, and so it does when the ring is closed, which is not put off for it: for what
    /// cannot be cancelled, and uses no memory. Its driver ends it when the ring is gone.
    Stay,
}

/// A request under way. Resolves to the kernel's result and what was held.
struct Request {
    ring: Rc<Ring>,
    /// `None` once the result is taken.
    key: Option<usize>,
    on_drop: OnDrop,
}

impl Future for Request {
    type Output = (io::Result<u32>, Hold);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let key = self.key.expect("a request is not polled after its end");
        let mut queues = self.ring.queues.borrow_mut();
        match &mut queues.slots[key].state {
            State::Done(result) => {
                let result = match *result {
                    n if n >= 0 => Ok(n as u32),
                    errno => Err(io::Error::from_raw_os_error(-errno)),
                };
                let hold = queues.slots.remove(key).hold;
                drop(queues);
                self.key = None;
                Poll::Ready((result, hold))
            }
            State::Pending(Some(waker)) if waker.will_wake(cx.waker()) => Poll::Pending,
            state => {
                let before = std::mem::replace(state, State::Pending(Some(cx.waker().clone())));
                // The last waker of another task may drop requests, which borrow the queues.
                drop(queues);
                drop(before);
                Poll::Pending
            }
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut queues = self.ring.queues.borrow_mut();
        let was = std::mem::replace(&mut queues.slots[key].state, State::Orphaned);
        let left = match was {
            State::Done(result) => {
                let mut slot = queues.slots.remove(key);
                slot.state = State::Done(result);
                Some(slot)
            }
            State::Pending(_) | State::Orphaned | State::Told => {
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
