//! A device that holds its data in another and answers with a model's timing.
//!
//! The data's own I/O and the model's time run side by side; a request is answered when both are over.
//! So the answer is never early, and late only if the device beneath is slower than the model, or the
//! clock wakes us late. [`Emulated::lateness`] says how late answers were.
//!
//! Time is the executor's: on the wall clock this is an old disk to be used, on a virtual clock one to
//! be simulated as fast as the processor allows. Nothing here can tell the two apart.
//!
//! What is promised is what such a drive promises. With its write cache on, completed writes are
//! volatile, and a flush waits for the medium, the model's and the real one. With its write cache off,
//! a write that has completed is on the medium: the data is then written through beneath, too, which
//! takes place during the model's time and costs nothing more; a flush has nothing to do. Old drives
//! know no discard; it goes to the data beneath and takes none of the model's time, and so does what
//! is zeroed by unmapping, if the data beneath can do that. Other zeroes are written as any data.
//!
//! Invariants:
//! - The model is told of requests in the order of their time, and time passes for it up to a
//!   request's arrival before it is told of it.
//! - While the model has an event to come, the clockwork task sleeps no longer than until that event.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use forebay_device::{Buf, BufMut, Device, Durability, Geometry, IoFuture, Result, Room};
use forebay_rt::{Instant, Rt, Sleep, Task};
use forebay_units::SECTOR_BYTES;
use futures_util::future::join;
use slab::Slab;

use crate::disk::{Completion, Op};
use crate::lateness::{Late, Lateness};

/// The longest transfer that one command asks for, in sectors: the ten-byte SCSI commands count them
/// in 16 bits. Longer requests become several commands, one after another.
const COMMAND_SECTORS_MAX: u64 = 0xffff;

/// What says how long requests take: state apart from waiting.
pub trait Timing {
    /// The sectors of 512 bytes there are.
    fn blocks(&self) -> u64;

    /// True if writes are answered before they are on the medium.
    fn has_write_cache(&self) -> bool;

    /// Takes a request that arrives at `now`, up to which time has passed; `id` comes back with its
    /// completion.
    fn submit(&mut self, now: Instant, id: u64, op: Op, first: u64, blocks: u32);

    /// Takes the command to bring all that is in the write cache to the medium.
    fn flush(&mut self, now: Instant, id: u64);

    /// When something next happens; `None` if nothing will.
    fn next_event(&self) -> Option<Instant>;

    /// Lets time pass up to `now`; adds what is done by then to `done`.
    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>);
}

/// Why a disk cannot be emulated over a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EmulatedError {
    /// There is more data than the disk has room for.
    #[error("the data has {len} bytes, but the disk holds {capacity}")]
    TooLarge {
        /// Bytes of data.
        len: u64,
        /// Bytes on the disk.
        capacity: u64,
    },
}

/// A device with the content of another and the timing of a model. Data shorter than the disk is the
/// disk's first part.
pub struct Emulated {
    shared: Rc<Shared>,
    data: Rc<dyn Device>,
    geometry: Geometry,
    /// Ends with the device.
    _clockwork: Task<()>,
}

struct Shared {
    rt: Rt,
    state: RefCell<State>,
}

struct State {
    disk: Box<dyn Timing>,
    waiting: Slab<Waiting>,
    /// Wakes the clockwork, and until when it sleeps (`None`: until it is woken).
    clockwork: Option<Waker>,
    sleeps_until: Option<Instant>,
    late: Late,
    /// Kept for their memory.
    done: Vec<Completion>,
    woken: Vec<Waker>,
}

#[derive(Default)]
struct Waiting {
    done: Option<Instant>,
    waker: Option<Waker>,
    /// Nobody waits any more.
    orphaned: bool,
}

impl Emulated {
    /// The disk `disk`, holding what `data` holds.
    ///
    /// # Errors
    /// If there is more of it than the disk can hold.
    pub fn new(
        rt: &Rt,
        data: Rc<dyn Device>,
        disk: impl Timing + 'static,
    ) -> Result<Emulated, EmulatedError> {
        let (below, capacity) = (data.geometry(), disk.blocks() * SECTOR_BYTES);
        if below.len > capacity {
            return Err(EmulatedError::TooLarge {
                len: below.len,
                capacity,
            });
        }
        let geometry = Geometry {
            volatile: disk.has_write_cache(),
            ..below
        };
        let shared = Rc::new(Shared {
            rt: rt.clone(),
            state: RefCell::new(State {
                disk: Box::new(disk),
                waiting: Slab::new(),
                clockwork: None,
                sleeps_until: None,
                late: Late::new(),
                done: Vec::new(),
                woken: Vec::new(),
            }),
        });
        Ok(Emulated {
            _clockwork: rt.spawn(clockwork(Rc::clone(&shared))),
            shared,
            data,
            geometry,
        })
    }

    /// How late answers have been so far.
    pub fn lateness(&self) -> Lateness {
        self.shared.state.borrow().late.summary()
    }

    /// Has the model transfer `range` (bytes); returns when it was done.
    async fn transfer(&self, op: Op, range: Range<u64>) -> Instant {
        let (mut first, end) = (range.start / SECTOR_BYTES, range.end / SECTOR_BYTES);
        loop {
            let sectors = (end - first).min(COMMAND_SECTORS_MAX);
            let command = self.shared.command(|disk, now, id| {
                disk.submit(now, id, op, first, sectors as u32);
            });
            let done = command.await;
            first += sectors;
            if first >= end {
                return done;
            }
        }
    }

    async fn transfer_write(&self, range: Range<u64>, durability: Durability) -> Instant {
        let done = self.transfer(Op::Write, range).await;
        match durability {
            // A drive of that time has no such thing, and the system flushes instead.
            Durability::Fua if self.geometry.volatile => self.flush_cache().await,
            _ => done,
        }
    }

    async fn flush_cache(&self) -> Instant {
        self.shared
            .command(|disk, now, id| disk.flush(now, id))
            .await
    }

    /// Answers when both are over: the data's I/O and the model's time.
    async fn both<T>(
        &self,
        data: impl Future<Output = Result<T>>,
        timing: impl Future<Output = Instant>,
    ) -> Result<T> {
        let rt = &self.shared.rt;
        let data = async { (data.await, rt.now()) };
        let ((result, data_done), model_done) = join(data, timing).await;
        let mut state = self.shared.state.borrow_mut();
        state.late.note(model_done, data_done, rt.now());
        result
    }

    /// How data must be written beneath so that what completes here is as durable as it says.
    fn beneath(&self, durability: Durability) -> Durability {
        if self.geometry.volatile {
            return durability;
        }
        Durability::Fua
    }
}

impl Device for Emulated {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        let range = at..at + buf.len() as u64;
        Box::pin(self.both(self.data.read(at, buf), self.transfer(Op::Read, range)))
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        let range = at..at + buf.len() as u64;
        let data = self.data.write(at, buf, self.beneath(durability));
        Box::pin(self.both(data, self.transfer_write(range, durability)))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        let data = async {
            match self.geometry.volatile {
                true => self.data.flush().await,
                false => Ok(()),
            }
        };
        Box::pin(self.both(data, self.flush_cache()))
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.data.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: Room) -> IoFuture<'_, ()> {
        let zeroed = self.data.write_zeroes(range.clone(), room);
        let data = async {
            zeroed.await?;
            match self.geometry.volatile {
                true => Ok(()),
                false => self.data.flush().await,
            }
        };
        if room == Room::Release && self.geometry.zeroes_by_unmapping {
            return Box::pin(data);
        }
        Box::pin(self.both(data, self.transfer_write(range, Durability::Flush)))
    }
}

/// Lets the model's time pass as the clock does, and wakes who waited.
async fn clockwork(shared: Rc<Shared>) {
    let mut sleep: Option<(Instant, Sleep)> = None;
    poll_fn(|cx| {
        loop {
            let now = shared.rt.now();
            let next = shared.pass(now, |state| {
                let next = state.disk.next_event();
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

impl Shared {
    /// Lets time pass up to `now`, then does `then`, then wakes whose requests are done.
    fn pass<T>(&self, now: Instant, then: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.borrow_mut();
        let State {
            disk,
            waiting,
            done,
            woken,
            ..
        } = &mut *state;
        disk.advance(now, done);
        for Completion { id, at, .. } in done.drain(..) {
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

    /// Gives the model a command, which arrives when the result is first polled; that resolves to
    /// when it was done.
    async fn command(self: &Rc<Self>, give: impl FnOnce(&mut dyn Timing, Instant, u64)) -> Instant {
        let now = self.rt.now();
        let key = self.pass(now, |state| {
            let key = state.waiting.insert(Waiting::default());
            give(&mut *state.disk, now, key as u64);
            let next = state.disk.next_event();
            let sleeps_past = |at| state.sleeps_until.is_none_or(|until| at < until);
            if next.is_some_and(sleeps_past) {
                state.woken.extend(state.clockwork.take());
            }
            key
        });
        let command = Command { shared: self, key };
        command.await
    }
}

/// A command that the model has.
struct Command<'a> {
    shared: &'a Shared,
    key: usize,
}

impl Future for Command<'_> {
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

impl Drop for Command<'_> {
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
