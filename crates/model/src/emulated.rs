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
//! How the model is waited for is in `clockwork.rs`.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Buf, BufMut, Device, Durability, Geometry, IoFuture, Result, Room};
use forebay_rt::{Instant, Rt};
use forebay_units::SECTOR_BYTES;
use futures_util::future::join;

use crate::clockwork::{Clockwork, Done, Model};
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
    clockwork: Clockwork<Timed>,
    late: RefCell<Late>,
    data: Rc<dyn Device>,
    geometry: Geometry,
}

/// A model of a disk, and what it said last.
struct Timed {
    disk: Box<dyn Timing>,
    /// Kept for its memory.
    done: Vec<Completion>,
}

impl Model for Timed {
    fn next_event(&self) -> Option<Instant> {
        self.disk.next_event()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Done>) {
        self.disk.advance(now, &mut self.done);
        let all = self.done.drain(..);
        done.extend(all.map(|Completion { id, at, .. }| Done { id, at }));
    }
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
        let timed = Timed {
            disk: Box::new(disk),
            done: Vec::new(),
        };
        Ok(Emulated {
            clockwork: Clockwork::new(rt, timed),
            late: RefCell::new(Late::new()),
            data,
            geometry,
        })
    }

    /// How late answers have been so far.
    pub fn lateness(&self) -> Lateness {
        self.late.borrow().summary()
    }

    /// Has the model transfer `range` (bytes); returns when it was done.
    async fn transfer(&self, op: Op, range: Range<u64>) -> Instant {
        let (mut first, end) = (range.start / SECTOR_BYTES, range.end / SECTOR_BYTES);
        loop {
            let sectors = (end - first).min(COMMAND_SECTORS_MAX);
            let command = self.clockwork.command(|timed, now, id| {
                timed.disk.submit(now, id, op, first, sectors as u32);
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
        self.clockwork
            .command(|timed, now, id| timed.disk.flush(now, id))
            .await
    }

    /// Answers when both are over: the data's I/O and the model's time.
    async fn both<T>(
        &self,
        data: impl Future<Output = Result<T>>,
        timing: impl Future<Output = Instant>,
    ) -> Result<T> {
        let data = async { (data.await, self.clockwork.now()) };
        let ((result, data_done), model_done) = join(data, timing).await;
        let mut late = self.late.borrow_mut();
        late.note(model_done, data_done, self.clockwork.now());
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
