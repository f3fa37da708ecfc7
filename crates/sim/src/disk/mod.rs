//! Disks with a volatile cache, on a virtual clock, whose power can be cut.
//!
//! What a [`Disk`] does: every request takes a random time, so requests overtake one another; a
//! write is seen by reads when it completes; it is durable after a flush issued later, or at once
//! with FUA. A power cut at the n-th request of the world stops everything there: of each write not
//! durable, finished or under way, every block is kept or dropped by a [`Coin`]. A write that fails
//! leaves a mixture behind; a flush that fails, or a write with FUA, may lose what was not durable. What else may
//! go wrong is said by [`Faults`].

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

use forebay_device::{Buf, BufMut, Device, DeviceError, Durability, Geometry, IoFuture, Op, Room};
use forebay_rng::Rng;
use forebay_rt::Rt;

pub use faults::{Faults, Outage, Rot, Trouble};
pub use image::Image;
pub use pending::{Fork, Running};
use pending::{Pending, leave, supersede};
pub use power::{Coin, Power, Watch};

/// True for a request that fails.
pub type Fault = Box<dyn Fn(Op, &Range<u64>) -> bool>;

/// How much longer a request takes than others, if it does.
pub type Hold = Box<dyn Fn(&Request) -> Option<Duration>>;

/// What a disk is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its number, from 0 on each disk.
    pub id: u64,
    /// Its number among those of its kind.
    pub nth: u64,
    /// What.
    pub op: Op,
    /// Where, in bytes.
    pub range: Range<u64>,
    /// What is written.
    pub bytes: Option<Buf>,
    /// Durable at completion.
    pub fua: bool,
}

impl Request {
    /// True if the disk may carry it out by a flush: then what else was not durable may be lost when it fails.
    pub fn is_flush(&self) -> bool {
        self.op == Op::Flush || self.fua
    }
}

/// Sees what a disk is asked and how it ends.
pub trait Observer {
    /// A request was issued.
    fn issued(&self, request: &Request);
    /// A request ended; `failed` if with an error.
    fn ended(&self, request: &Request, failed: bool);
}

/// A disk of a world.
pub struct Disk {
    rt: Rt,
    power: Rc<Power>,
    rng: Rc<Rng>,
    geometry: Cell<Geometry>,
    current: RefCell<Image>,
    stable: RefCell<Image>,
    pending: RefCell<Vec<Pending>>,
    order: Cell<u64>,
    requests: Cell<u64>,
    by_op: [Cell<u64>; 5],
    writes_seen: Cell<u64>,
    injected: Cell<u64>,
    lied: Cell<bool>,
    fresh: RefCell<BTreeSet<u64>>,
    /// Latency of a request is at most this.
    pub slowest: Cell<Duration>,
    /// What a flush takes, if not what everything takes.
    pub flush_takes: Cell<Option<Duration>>,
    /// Requests that fail: asked with the operation and its range.
    pub fault: RefCell<Option<Fault>>,
    /// Requests that take longer: asked with each request when it is issued.
    pub hold: RefCell<Option<Hold>>,
    /// What else it does wrong.
    pub faults: RefCell<Faults>,
    /// A flush that fails, or a write with FUA, loses what was not durable (as disks and kernels do).
    pub forgetful: Cell<bool>,
    /// Disks that have their volatile cache in common with this one: a failed flush loses what was not durable of all.
    one_cache: RefCell<Vec<Weak<Disk>>>,
    /// Flushes that completed.
    pub flushes: Cell<u64>,
    /// Flushes under way.
    flushing: Cell<usize>,
    /// Every write, as issued.
    pub writes: RefCell<Vec<Range<u64>>>,
    /// Who sees what is asked of it.
    pub observer: RefCell<Option<Rc<dyn Observer>>>,
}

/// The index of a write under way.
fn position(pending: &[Pending], id: u64) -> usize {
    let found = pending.iter().position(|write| write.id == id);
    found.expect("pending")
}

impl Disk {
    /// A disk that holds `image`, in blocks of `block` bytes.
    pub fn new(rt: &Rt, power: &Rc<Power>, rng: &Rc<Rng>, image: Image, block: u32) -> Rc<Disk> {
        let geometry = Geometry {
            len: image.len(),
            block_size: block,
            physical_block_size: block,
            preferred_io: 4096,
            volatile: true,
            discard_granularity: 4096,
            zeroes_by_unmapping: true,
        };
        Rc::new(Disk {
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

    /// Notes a request and gives it to whoever watches.
    fn ask(&self, op: Op, range: Range<u64>, bytes: Option<Buf>, fua: bool) -> Request {
        let id = self.requests.replace(self.requests.get() + 1);
        let nth = self.by_op[op as usize].replace(self.by_op[op as usize].get() + 1);
        let request = Request {
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

    fn ended<T>(&self, request: &Request, out: Result<T, DeviceError>) -> Result<T, DeviceError> {
        let observer = self.observer.borrow().clone();
        if let Some(observer) = observer {
            observer.ended(request, out.is_err());
        }
        out
    }

    async fn take_time(&self, request: &Request) {
        let most = self.slowest.get();
        let takes = match self.flush_takes.get().filter(|_| request.op == Op::Flush) {
            Some(span) => span,
            None if most.is_zero() => Duration::ZERO,
            None => Duration::from_nanos(1 + self.rng.below(most.as_nanos() as u64)),
        };
        let slow_reads = self.faults.borrow().slow_reads;
        let slow = self.faults.borrow().slow;
        let slow = slow.or(slow_reads.filter(|_| request.op == Op::Read));
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

    async fn do_write(&self, request: Request) -> Result<(), DeviceError> {
        self.writes.borrow_mut().push(request.range.clone());
        let place = self.place(&request);
        let len = request.range.end - request.range.start;
        let write = Pending {
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
            // The disk may have carried the write out by a flush, which failed.
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

    /// A write failed: some of its blocks were written.
    fn leave_mixture(&self, id: u64) {
        let mut pending = self.pending.borrow_mut();
        let n = position(&pending, id);
        let write = pending.remove(n);
        for block in write.blocks(self.geometry.get().block_size.into()) {
            if self.rng.coin() {
                let (id, done) = (self.next_order(), Some(self.next_order()));
                let part = Pending {
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

    /// Keeps once what was tried again and again. Not while a flush is under way: that may be for the
    /// older write, and not for the newer.
    fn drop_repeated(&self, pending: &mut Vec<Pending>, newest: &Pending) {
        if self.flushing.get() == 0 {
            pending.retain(|write| !write.is_repeated_by(newest));
        }
    }

    async fn do_flush(&self) -> Result<(), DeviceError> {
        let request = self.ask(Op::Flush, 0..0, None, false);
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
            durable.iter().for_each(|write| write.apply(&mut stable));
        }
        self.ended(&request, Ok(()))
    }

    /// Makes disks have one volatile cache, as parts of one disk do.
    pub fn share_cache(disks: &[&Rc<Disk>]) {
        for disk in disks {
            let others = disks.iter().filter(|other| !Rc::ptr_eq(other, disk));
            let others = others.map(|other| Rc::downgrade(other)).collect();
            disk.one_cache.replace(others);
        }
    }

    /// Forgets what a failed flush loses, if this disk does.
    fn flush_failed(&self) {
        if !self.forgetful.get() && !self.faults.borrow().forgetful {
            return;
        }
        self.lose_unflushed();
        for other in self.one_cache.borrow().iter().filter_map(Weak::upgrade) {
            other.lose_unflushed();
        }
    }

    /// What a flush that failed may do.
    fn lose_unflushed(&self) {
        let mut pending = self.pending.borrow_mut();
        let (lost, rest): (Vec<Pending>, Vec<Pending>) =
            pending.drain(..).partition(|write| write.done.is_some());
        *pending = rest;
        let (mut current, stable) = (self.current.borrow_mut(), self.stable.borrow());
        for write in lost {
            current.copy_from(&stable, write.range());
        }
    }

    /// Makes the disk longer, by zeroes, as its owner would: an administrator extends the logical volume.
    pub fn grow(&self, len: u64) {
        let geometry = self.geometry.get();
        self.current.borrow_mut().grow(len);
        self.stable.borrow_mut().grow(len);
        self.geometry.set(Geometry { len, ..geometry });
    }

    /// Makes requests fail.
    pub fn fail(&self, fault: impl Fn(Op, &Range<u64>) -> bool + 'static) {
        self.fault.replace(Some(Box::new(fault)));
    }

    /// Requests so far, of all kinds.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Requests of a kind so far.
    pub fn requests_of(&self, op: Op) -> u64 {
        self.by_op[op as usize].get()
    }

    /// Faults that happened.
    pub fn injected(&self) -> u64 {
        self.injected.get()
    }

    /// Writes that were issued and have not completed.
    pub fn writes_under_way(&self) -> usize {
        let pending = self.pending.borrow();
        pending.iter().filter(|write| write.done.is_none()).count()
    }

    /// Blocks that are not durable: those a [`Coin`] is tossed for.
    pub fn blocks_at_stake(&self) -> u64 {
        let block = u64::from(self.geometry.get().block_size);
        let pending = self.pending.borrow();
        pending.iter().map(|write| write.len.div_ceil(block)).sum()
    }

    /// The medium if the power were cut now.
    pub fn cut(&self, coin: Coin) -> Image {
        let block = u64::from(self.geometry.get().block_size);
        let mut medium = self.stable.borrow().clone();
        leave(&mut medium, &self.pending.borrow(), block, coin);
        medium
    }

    /// As [`Disk::cut`], in plain bytes.
    pub fn after_cut(&self, coin: Coin) -> Vec<u8> {
        self.cut(coin).to_vec()
    }

    /// What reads see now, in plain bytes.
    pub fn now(&self) -> Vec<u8> {
        self.current.borrow().to_vec()
    }

    /// What is durable of a range.
    pub fn durable(&self, range: Range<u64>) -> Vec<u8> {
        self.stable.borrow().bytes(range)
    }
}

impl Device for Disk {
    fn geometry(&self) -> Geometry {
        self.geometry.get()
    }

    fn read(&self, at: u64, mut buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            let request = self.ask(Op::Read, at..at + buf.len() as u64, None, false);
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
            self.do_write(self.ask(Op::Write, range, Some(buf), fua))
                .await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(self.do_flush())
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.do_write(self.ask(Op::Discard, range, None, false))
                .await
        })
    }

    fn write_zeroes(&self, range: Range<u64>, _room: Room) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.do_write(self.ask(Op::WriteZeroes, range, None, false))
                .await
        })
    }
}
