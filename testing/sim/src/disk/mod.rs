//! Disks with a volatile cache on a virtual clock. Their power can be cut.
//!
//! Every request to a [`SimDisk`] takes a random time, so requests overtake each other. A write is visible to reads when
//! it completes. It is durable after a flush that is issued later, or at once with FUA. A power cut at the n-th request
//! of the scenario stops all disks. For each write that is not durable, completed or in flight, a [`WriteFate`] keeps or
//! drops each block. A failed write leaves a mixture of old and new blocks. A failed flush, or a failed write with FUA,
//! may lose data that was not durable. [`DiskFaults`] lists all other faults.

mod faults;
mod image;
mod pending;
mod power;
mod wrong;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::time::Duration;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture, ZeroedSpace,
};
use forebay_rng::Rng;
use forebay_rt::Rt;

pub use faults::{BitRot, DiskFaults, DiskOutage, TimedFault};
pub use image::DiskImage;
pub use pending::{DiskFork, RunningDisk};
use pending::{VolatileWrite, leave, supersede};
pub use power::{PowerWatch, SharedPower, WriteFate};

/// Function that returns true for a request that fails.
pub type FaultPredicate = Box<dyn Fn(DeviceOp, &Range<u64>) -> bool>;

/// Function that returns the additional duration of a request, if any.
pub type HoldFunction = Box<dyn Fn(&DiskRequest) -> Option<Duration>>;

/// A request to a disk.
#[derive(Clone, Debug)]
pub struct DiskRequest {
    /// Number of the request, from 0 on each disk.
    pub id: u64,
    /// Number among the requests of its kind.
    pub nth: u64,
    /// Kind of the request.
    pub op: DeviceOp,
    /// Range in bytes.
    pub range: Range<u64>,
    /// Data of a write.
    pub bytes: Option<Buf>,
    /// True if the write is durable at completion.
    pub fua: bool,
}

impl DiskRequest {
    /// Returns true if the disk may execute the request with a flush: a failure may then lose all data that was not
    /// durable.
    pub fn is_flush(&self) -> bool {
        self.op == DeviceOp::Flush || self.fua
    }
}

/// Observer of a disk's requests and their results.
pub trait DiskObserver {
    /// Notes that a request was issued.
    fn issued(&self, request: &DiskRequest);
    /// Notes that a request ended; `failed` is true if it ended with an error.
    fn ended(&self, request: &DiskRequest, failed: bool);
    /// Notes that the disk lost writes that were complete and not durable. The failure that caused it may be reported
    /// later ([`DiskFaults::fua_reported_late`]).
    fn lost_writes(&self) {}
}

/// A disk of a scenario.
pub struct SimDisk {
    rt: Rt,
    power: Rc<SharedPower>,
    rng: Rc<Rng>,
    geometry: Cell<DeviceGeometry>,
    current: RefCell<DiskImage>,
    stable: RefCell<DiskImage>,
    pending: RefCell<Vec<VolatileWrite>>,
    order: Cell<u64>,
    requests: Cell<u64>,
    by_op: [Cell<u64>; 5],
    writes_seen: Cell<u64>,
    injected: Cell<u64>,
    lied: Cell<bool>,
    fresh: RefCell<BTreeSet<u64>>,
    /// Maximum latency of a request.
    pub slowest: Cell<Duration>,
    /// Duration of a flush, if it differs from other requests.
    pub flush_takes: Cell<Option<Duration>>,
    /// Predicate for failing requests, by operation and range.
    pub fault: RefCell<Option<FaultPredicate>>,
    /// Function for additional durations, called for each request when it is issued.
    pub hold: RefCell<Option<HoldFunction>>,
    /// Other faults of the disk.
    pub faults: RefCell<DiskFaults>,
    /// True if a failed flush, or a failed write with FUA, loses data that was not durable (as on real disks and in
    /// kernels).
    pub forgetful: Cell<bool>,
    /// Disks that share this disk's volatile cache: a failed flush loses data of all of them that was not durable.
    one_cache: RefCell<Vec<Weak<SimDisk>>>,
    /// Number of completed flushes.
    pub flushes: Cell<u64>,
    /// Number of flushes in flight.
    flushing: Cell<usize>,
    /// Ranges of all writes, in the order of issue.
    pub writes: RefCell<Vec<Range<u64>>>,
    /// Observer of this disk's requests.
    pub observer: RefCell<Option<Rc<dyn DiskObserver>>>,
}

/// Returns the index of a write in flight.
fn position(pending: &[VolatileWrite], id: u64) -> usize {
    let found = pending.iter().position(|write| write.id == id);
    found.expect("pending")
}

impl SimDisk {
    /// Creates a disk with the content `image`, in blocks of `block` bytes.
    pub fn new(
        rt: &Rt,
        power: &Rc<SharedPower>,
        rng: &Rc<Rng>,
        image: DiskImage,
        block: u32,
    ) -> Rc<SimDisk> {
        let geometry = DeviceGeometry {
            len: image.len(),
            block_size: block,
            physical_block_size: block,
            preferred_io: 4096,
            volatile: true,
            discard_granularity: 4096,
            zeroes_by_unmapping: true,
        };
        Rc::new(SimDisk {
            rt: rt.clone(),
            power: Rc::clone(power),
            rng: Rc::clone(rng),
            geometry: Cell::new(geometry),
            current: RefCell::new(image.clone()),
            stable: RefCell::new(image),
            pending: RefCell::default(),
            order: Cell::new(1),
            requests: Cell::new(0),
            by_op: Default::default(),
            writes_seen: Cell::new(0),
            injected: Cell::new(0),
            lied: Cell::new(false),
            fresh: RefCell::default(),
            slowest: Cell::new(Duration::from_micros(300)),
            flush_takes: Cell::new(None),
            fault: RefCell::new(None),
            hold: RefCell::new(None),
            faults: RefCell::default(),
            forgetful: Cell::new(false),
            one_cache: RefCell::default(),
            flushes: Cell::new(0),
            flushing: Cell::new(0),
            writes: RefCell::default(),
            observer: RefCell::new(None),
        })
    }

    /// Numbers a request and passes it to the observer.
    fn ask(&self, op: DeviceOp, range: Range<u64>, bytes: Option<Buf>, fua: bool) -> DiskRequest {
        let id = self.requests.replace(self.requests.get() + 1);
        let nth = self.by_op[op as usize].replace(self.by_op[op as usize].get() + 1);
        let request = DiskRequest {
            id,
            nth,
            op,
            range,
            bytes,
            fua,
        };
        self.rot_if_due(id);
        let observer = self.observer.borrow().clone();
        if let Some(observer) = observer {
            observer.issued(&request);
        }
        request
    }

    fn ended<T>(
        &self,
        request: &DiskRequest,
        out: Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let observer = self.observer.borrow().clone();
        if let Some(observer) = observer {
            observer.ended(request, out.is_err());
        }
        out
    }

    async fn take_time(&self, request: &DiskRequest) {
        let most = self.slowest.get();
        let takes = match self
            .flush_takes
            .get()
            .filter(|_| request.op == DeviceOp::Flush)
        {
            Some(span) => span,
            None if most.is_zero() => Duration::ZERO,
            None => Duration::from_nanos(1 + self.rng.below(most.as_nanos() as u64)),
        };
        let slow_reads = self.faults.borrow().slow_reads;
        let slow = self.faults.borrow().slow;
        let slow = slow.or(slow_reads.filter(|_| request.op == DeviceOp::Read));
        let more = slow.filter(|(one_in, _)| self.chance(request.id, 1, *one_in));
        let takes = takes + more.map_or(Duration::ZERO, |(_, span)| span);
        let held = self.hold.borrow().as_ref().and_then(|hold| hold(request));
        let takes = takes + self.delay(request) + held.unwrap_or_default();
        if !takes.is_zero() {
            self.rt.sleep(takes).await;
        }
        self.power.stop_if_off().await;
    }

    fn next_order(&self) -> u64 {
        let order = self.order.get();
        self.order.set(order + 1);
        order
    }

    async fn do_write(&self, request: DiskRequest) -> Result<(), DeviceError> {
        self.writes.borrow_mut().push(request.range.clone());
        let place = self.place(&request);
        let len = request.range.end - request.range.start;
        let write = VolatileWrite {
            id: self.next_order(),
            done: None,
            at: place,
            len,
            bytes: request.bytes.clone(),
        };
        let id = write.id;
        self.pending.borrow_mut().push(write);
        self.power.request().await;
        self.take_time(&request).await;
        if let Err(error) = self.verdict(&request) {
            self.leave_mixture(id);
            // The disk may have executed the write with a flush, which failed.
            if request.fua {
                self.flush_failed();
                if self.faults.borrow().fua_reported_late {
                    self.take_time(&request).await;
                }
            }
            return self.ended(&request, Err(error));
        }
        let mut pending = self.pending.borrow_mut();
        let n = position(&pending, id);
        pending[n].done = Some(self.next_order());
        pending[n].apply(&mut self.current.borrow_mut());
        let lies = self.faults.borrow().lies;
        if request.fua && !lies {
            let write = pending.remove(n);
            write.apply(&mut self.stable.borrow_mut());
            supersede(&mut pending, &write.range());
        } else {
            let newest = pending[n].clone();
            self.drop_repeated(&mut pending, &newest);
        }
        drop(pending);
        if request.fua && lies {
            self.lie();
        }
        self.ended(&request, Ok(()))
    }

    /// Handles a failed write: some of its blocks were written.
    fn leave_mixture(&self, id: u64) {
        let mut pending = self.pending.borrow_mut();
        let n = position(&pending, id);
        let write = pending.remove(n);
        for block in write.blocks(self.geometry.get().block_size.into()) {
            if self.rng.coin() {
                let (id, done) = (self.next_order(), Some(self.next_order()));
                let part = VolatileWrite {
                    id,
                    done,
                    ..write.part(block)
                };
                part.apply(&mut self.current.borrow_mut());
                self.drop_repeated(&mut pending, &part);
                pending.push(part);
            }
        }
    }

    /// Keeps only the last of identical repeated writes. Not while a flush is in flight: it may cover only the older
    /// write.
    fn drop_repeated(&self, pending: &mut Vec<VolatileWrite>, newest: &VolatileWrite) {
        if self.flushing.get() == 0 {
            pending.retain(|write| !write.is_repeated_by(newest));
        }
    }

    async fn do_flush(&self) -> Result<(), DeviceError> {
        let request = self.ask(DeviceOp::Flush, 0..0, None, false);
        let covered = self.order.get();
        self.flushing.set(self.flushing.get() + 1);
        self.power.request().await;
        self.take_time(&request).await;
        self.flushing.set(self.flushing.get() - 1);
        if let Err(error) = self.verdict(&request) {
            self.flush_failed();
            return self.ended(&request, Err(error));
        }
        self.flushes.set(self.flushes.get() + 1);
        if self.faults.borrow().lies {
            self.lie();
        } else {
            let mut pending = self.pending.borrow_mut();
            let (mut durable, rest): (Vec<_>, Vec<_>) = pending
                .drain(..)
                .partition(|write| write.done.is_some_and(|done| done < covered));
            *pending = rest;
            durable.sort_by_key(|write| write.done);
            let mut stable = self.stable.borrow_mut();
            for write in &durable {
                write.apply(&mut stable);
            }
        }
        self.ended(&request, Ok(()))
    }

    /// Lets disks share a volatile cache, like parts of one disk.
    pub fn share_cache(disks: &[&Rc<SimDisk>]) {
        for disk in disks {
            let others = disks.iter().filter(|other| !Rc::ptr_eq(other, disk));
            let others = others.map(|other| Rc::downgrade(other)).collect();
            disk.one_cache.replace(others);
        }
    }

    /// Drops the data that a failed flush loses, if this disk loses any.
    fn flush_failed(&self) {
        if !self.forgetful.get() && !self.faults.borrow().forgetful {
            return;
        }
        self.lose_unflushed();
        for other in self.one_cache.borrow().iter().filter_map(Weak::upgrade) {
            other.lose_unflushed();
        }
    }

    /// Drops all completed writes that are not durable, as a failed flush may do.
    fn lose_unflushed(&self) {
        let observer = self.observer.borrow().clone();
        if let Some(observer) = observer {
            observer.lost_writes();
        }
        let mut pending = self.pending.borrow_mut();
        let (lost, rest): (Vec<VolatileWrite>, Vec<VolatileWrite>) =
            pending.drain(..).partition(|write| write.done.is_some());
        *pending = rest;
        let (mut current, stable) = (self.current.borrow_mut(), self.stable.borrow());
        for write in lost {
            current.copy_from(&stable, write.range());
        }
    }

    /// Extends the disk with zeroes, as an administrator extends a logical volume.
    pub fn grow(&self, len: u64) {
        let geometry = self.geometry.get();
        self.current.borrow_mut().grow(len);
        self.stable.borrow_mut().grow(len);
        self.geometry.set(DeviceGeometry { len, ..geometry });
    }

    /// Sets the predicate for failing requests.
    pub fn fail(&self, fault: impl Fn(DeviceOp, &Range<u64>) -> bool + 'static) {
        self.fault.replace(Some(Box::new(fault)));
    }

    /// Returns the number of requests so far, of all kinds.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Returns the number of requests of a kind so far.
    pub fn requests_of(&self, op: DeviceOp) -> u64 {
        self.by_op[op as usize].get()
    }

    /// Returns the number of faults so far.
    pub fn injected(&self) -> u64 {
        self.injected.get()
    }

    /// Returns the number of writes in flight.
    pub fn writes_under_way(&self) -> usize {
        let pending = self.pending.borrow();
        pending.iter().filter(|write| write.done.is_none()).count()
    }

    /// Returns the number of blocks that are not durable: each of them needs a toss of a [`WriteFate`].
    pub fn blocks_at_stake(&self) -> u64 {
        let block = u64::from(self.geometry.get().block_size);
        let pending = self.pending.borrow();
        pending.iter().map(|write| write.len.div_ceil(block)).sum()
    }

    /// Returns the content of the disk after a power cut now.
    pub fn cut(&self, coin: WriteFate) -> DiskImage {
        let block = u64::from(self.geometry.get().block_size);
        let mut medium = self.stable.borrow().clone();
        leave(&mut medium, &self.pending.borrow(), block, coin);
        medium
    }

    /// Returns the bytes of [`SimDisk::cut`].
    pub fn after_cut(&self, coin: WriteFate) -> Vec<u8> {
        self.cut(coin).to_vec()
    }

    /// Returns the bytes that reads return now.
    pub fn now(&self) -> Vec<u8> {
        self.current.borrow().to_vec()
    }

    /// Returns the durable bytes of a range.
    pub fn durable(&self, range: Range<u64>) -> Vec<u8> {
        self.stable.borrow().bytes(range)
    }
}

impl Device for SimDisk {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry.get()
    }

    fn read(&self, at: u64, mut buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            let request = self.ask(DeviceOp::Read, at..at + buf.len() as u64, None, false);
            self.power.stop_if_off().await;
            self.take_time(&request).await;
            let verdict = self.verdict(&request);
            self.current.borrow().read(at, &mut buf);
            self.ended(&request, verdict.map(|()| buf))
        })
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let (range, fua) = (at..at + buf.len() as u64, durability == Durability::Fua);
            self.do_write(self.ask(DeviceOp::Write, range, Some(buf), fua))
                .await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(self.do_flush())
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.do_write(self.ask(DeviceOp::Discard, range, None, false))
                .await
        })
    }

    fn write_zeroes(&self, range: Range<u64>, _room: ZeroedSpace) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.do_write(self.ask(DeviceOp::WriteZeroes, range, None, false))
                .await
        })
    }
}
