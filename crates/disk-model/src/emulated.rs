//! A device that stores its data in another device and answers with the timing of a model.
//!
//! The data's own I/O and the model's time run concurrently. A request completes when both are done. So an answer is
//! never early. It is late only if the device below is slower than the model, or if the clock wakes the task late.
//! [`EmulatedDisk::lateness`] returns the delays of answers.
//!
//! The time is that of the executor. On the wall clock the device can be used like an old disk. On a virtual clock it
//! is simulated as fast as the processor allows. The code does not distinguish the two.
//!
//! The device gives the guarantees of the modelled drive. With a write cache, completed writes are volatile, and a
//! flush waits until the model and the real device have written all data. Without a write cache, a completed write is
//! durable. The data is then also written through to the device below. This happens during the model's time and costs
//! no additional time. A flush does nothing. Old drives have no discard, so discards only go to the data below and take
//! no model time. Zeroing by unmapping is treated likewise, if the device below supports it. Other zeroes are written
//! as data.
//!
//! `clockwork.rs` waits for the model.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, Result, ZeroedSpace,
};
use forebay_rt::{Instant, Rt};
use forebay_units::SECTOR_BYTES;
use futures_util::future::join;

use crate::clockwork::{Clockwork, ClockworkModel, CommandCompletion};
use crate::disk::{DiskCompletion, DiskOp};
use crate::lateness::{Lateness, LatenessCounts};

/// The longest transfer of a single command, in sectors: the ten-byte SCSI commands have a 16-bit count. Longer
/// requests become several consecutive commands.
const COMMAND_SECTORS_MAX: u64 = 0xffff;

/// A timing model for requests: state without waiting.
pub trait TimingModel {
    /// Returns the capacity in sectors of 512 bytes.
    fn blocks(&self) -> u64;

    /// Returns true if writes are answered before they are durable.
    fn has_write_cache(&self) -> bool;

    /// Takes a request that arrives at `now`. The caller must have advanced the model to `now`. The completion carries
    /// `id`.
    fn submit(&mut self, now: Instant, id: u64, op: DiskOp, first: u64, blocks: u32);

    /// Takes a command to make the contents of the write cache durable.
    fn flush(&mut self, now: Instant, id: u64);

    /// Returns the time of the next event. `None` without a future event.
    fn next_event(&self) -> Option<Instant>;

    /// Advances time to `now`; adds completed requests to `done`.
    fn advance(&mut self, now: Instant, done: &mut Vec<DiskCompletion>);
}

/// Reason why a disk cannot be emulated over a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EmulatedError {
    /// The data is larger than the disk.
    #[error("the data has {len} bytes, but the disk holds {capacity}")]
    TooLarge {
        /// Bytes of data.
        len: u64,
        /// Bytes of the disk.
        capacity: u64,
    },
}

/// A device with the content of another one and the timing of a model. If the data is shorter than the disk, it
/// occupies the disk's first part.
pub struct EmulatedDisk {
    clockwork: Clockwork<TimedDisk>,
    late: RefCell<LatenessCounts>,
    data: Rc<dyn Device>,
    geometry: DeviceGeometry,
}

/// A model of a disk, and a buffer for its completions.
struct TimedDisk {
    disk: Box<dyn TimingModel>,
    /// Buffer, kept to reuse its memory.
    done: Vec<DiskCompletion>,
}

impl ClockworkModel for TimedDisk {
    fn next_event(&self) -> Option<Instant> {
        self.disk.next_event()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<CommandCompletion>) {
        self.disk.advance(now, &mut self.done);
        let all = self.done.drain(..);
        done.extend(all.map(|DiskCompletion { id, at, .. }| CommandCompletion { id, at }));
    }
}

impl EmulatedDisk {
    /// Creates the device with the timing of `disk` and the content of `data`.
    ///
    /// # Errors
    /// If the data is larger than the disk.
    pub fn new(
        rt: &Rt,
        data: Rc<dyn Device>,
        disk: impl TimingModel + 'static,
    ) -> Result<EmulatedDisk, EmulatedError> {
        let (below, capacity) = (data.geometry(), disk.blocks() * SECTOR_BYTES);
        if below.len > capacity {
            return Err(EmulatedError::TooLarge {
                len: below.len,
                capacity,
            });
        }
        let geometry = DeviceGeometry {
            volatile: disk.has_write_cache(),
            ..below
        };
        let timed = TimedDisk {
            disk: Box::new(disk),
            done: Vec::new(),
        };
        Ok(EmulatedDisk {
            clockwork: Clockwork::new(rt, timed),
            late: RefCell::new(LatenessCounts::new()),
            data,
            geometry,
        })
    }

    /// Returns the delays of answers so far.
    pub fn lateness(&self) -> Lateness {
        self.late.borrow().summary()
    }

    /// Lets the model transfer `range` (bytes); returns the completion time.
    async fn transfer(&self, op: DiskOp, range: Range<u64>) -> Instant {
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
        let done = self.transfer(DiskOp::Write, range).await;
        match durability {
            // Drives of that time do not support FUA, so the system flushes instead.
            Durability::Fua if self.geometry.volatile => self.flush_cache().await,
            _ => done,
        }
    }

    async fn flush_cache(&self) -> Instant {
        self.clockwork
            .command(|timed, now, id| timed.disk.flush(now, id))
            .await
    }

    /// Completes when the data's I/O and the model's time are both done.
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

    /// Returns the durability with which data must be written below, so that completed writes have their guaranteed
    /// durability.
    fn beneath(&self, durability: Durability) -> Durability {
        if self.geometry.volatile {
            return durability;
        }
        Durability::Fua
    }
}

impl Device for EmulatedDisk {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        let range = at..at + buf.len() as u64;
        Box::pin(self.both(self.data.read(at, buf), self.transfer(DiskOp::Read, range)))
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        let range = at..at + buf.len() as u64;
        let data = self.data.write(at, buf, self.beneath(durability));
        Box::pin(self.both(data, self.transfer_write(range, durability)))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        let data = async {
            if self.geometry.volatile {
                self.data.flush().await
            } else {
                Ok(())
            }
        };
        Box::pin(self.both(data, self.flush_cache()))
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.data.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        let zeroed = self.data.write_zeroes(range.clone(), room);
        let data = async {
            zeroed.await?;
            if self.geometry.volatile {
                Ok(())
            } else {
                self.data.flush().await
            }
        };
        if room == ZeroedSpace::Release && self.geometry.zeroes_by_unmapping {
            return Box::pin(data);
        }
        Box::pin(self.both(data, self.transfer_write(range, Durability::Flush)))
    }
}
