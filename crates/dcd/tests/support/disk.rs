//! Disks with a volatile cache, on a virtual clock, whose power can be cut.
//!
//! What a [`Disk`] does: every request takes a random time; a write is seen by reads when it
//! completes; it is durable after a flush issued later, or at once with FUA. A power cut at the n-th
//! request of the world stops everything there: of each write not durable, finished or under way,
//! every block is kept or dropped by a [`Coin`]. A write that fails leaves a mixture behind; a flush
//! that fails may lose what it should have covered.
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, Durability, Geometry, IoFuture, Op, RamDevice,
};
use forebay_rt::{Event, Rt};

/// A small generator (SplitMix64): the same seed, the same numbers.
#[derive(Clone)]
pub struct Rng(Rc<Cell<u64>>);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(Rc::new(Cell::new(seed)))
    }

    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`.
    pub fn below(&self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn coin(&self) -> bool {
        self.next() & 1 == 1
    }
}

/// What becomes of writes that are not durable when the power goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coin {
    Keep,
    Drop,
    /// Each block is kept or dropped.
    Blocks(u64),
    /// Each write is kept or dropped as a whole: the later without the earlier, too.
    Writes(u64),
}

impl Coin {
    fn toss(self) -> impl FnMut(bool) -> bool {
        let (Coin::Blocks(seed) | Coin::Writes(seed)) = self else {
            return Box::new(move |_| self == Coin::Keep) as Box<dyn FnMut(bool) -> bool>;
        };
        let (rng, mut last) = (Rng::new(seed), false);
        Box::new(move |new_write| {
            if new_write || matches!(self, Coin::Blocks(_)) {
                last = rng.coin();
            }
            last
        })
    }
}

/// Told the number of a request.
pub type Watch = Box<dyn Fn(u64)>;

/// Power, shared by the disks of a world.
pub struct Power {
    requests: Cell<u64>,
    cut_at: Cell<Option<u64>>,
    off: Cell<bool>,
    went_off: Event,
    /// Called at every request that changes something, when it is issued.
    pub watch: RefCell<Option<Watch>>,
}

impl Power {
    pub fn new(cut_at: Option<u64>) -> Rc<Power> {
        Rc::new(Power {
            requests: Cell::new(0),
            cut_at: Cell::new(cut_at),
            off: Cell::new(false),
            went_off: Event::new(),
            watch: RefCell::new(None),
        })
    }

    /// Requests that change something, so far.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    pub fn is_off(&self) -> bool {
        self.off.get()
    }

    pub fn cut(&self) {
        self.off.set(true);
        self.went_off.notify_all();
    }

    pub async fn until_off(&self) {
        self.went_off.until(|| self.is_off().then_some(())).await;
    }

    /// Counts a request; with the power off it waits for ever.
    async fn request(&self) {
        let n = self.requests.get();
        self.requests.set(n + 1);
        if let Some(watch) = &*self.watch.borrow() {
            watch(n);
        }
        if self.cut_at.get() == Some(n) {
            self.cut();
        }
        self.stop_if_off().await;
    }

    async fn stop_if_off(&self) {
        if self.is_off() {
            std::future::pending::<()>().await;
        }
    }
}

/// True for a request that fails.
pub type Fault = Box<dyn Fn(Op, &Range<u64>) -> bool>;

struct Pending {
    id: u64,
    /// Order of completion; writes under way have none yet.
    done: Option<u64>,
    at: u64,
    bytes: Vec<u8>,
}

/// A disk of a world.
pub struct Disk {
    rt: Rt,
    power: Rc<Power>,
    rng: Rng,
    geometry: Geometry,
    current: RamDevice,
    stable: RamDevice,
    /// Which completion each durable block is from.
    stable_order: RefCell<BTreeMap<u64, u64>>,
    pending: RefCell<Vec<Pending>>,
    order: Cell<u64>,
    /// Latency of a request is at most this.
    pub slowest: Cell<Duration>,
    /// What a flush takes, if not what everything takes.
    pub flush_takes: Cell<Option<Duration>>,
    /// Requests that fail: asked with the operation and its range.
    pub fault: RefCell<Option<Fault>>,
    /// A flush that fails loses what was not durable (as disks and kernels do).
    pub forgetful: Cell<bool>,
    pub flushes: Cell<u64>,
    /// Every write, as issued.
    pub writes: RefCell<Vec<Range<u64>>>,
}

impl Disk {
    pub fn new(rt: &Rt, power: &Rc<Power>, rng: &Rng, image: &[u8], block: u32) -> Rc<Disk> {
        let (current, stable) = (
            RamDevice::new(image.len() as u64, block),
            RamDevice::new(image.len() as u64, block),
        );
        for (n, page) in image.chunks(4096).enumerate() {
            if *page != [0; 4096][..page.len()] {
                current.poke(n as u64 * 4096, page);
                stable.poke(n as u64 * 4096, page);
            }
        }
        Rc::new(Disk {
            rt: rt.clone(),
            power: Rc::clone(power),
            rng: rng.clone(),
            geometry: Geometry {
                volatile: true,
                preferred_io: 4096,
                ..current.geometry()
            },
            current,
            stable,
            stable_order: RefCell::default(),
            pending: RefCell::default(),
            order: Cell::new(1),
            slowest: Cell::new(Duration::from_micros(300)),
            flush_takes: Cell::new(None),
            fault: RefCell::new(None),
            forgetful: Cell::new(false),
            flushes: Cell::new(0),
            writes: RefCell::default(),
        })
    }

    async fn take_time(&self) {
        let most = self.slowest.get().as_nanos() as u64;
        if most > 0 {
            self.rt
                .sleep(Duration::from_nanos(1 + self.rng.below(most)))
                .await;
        }
        self.power.stop_if_off().await;
    }

    fn fails(&self, op: Op, range: &Range<u64>) -> Result<(), DeviceError> {
        match &*self.fault.borrow() {
            Some(fault) if fault(op, range) => Err(DeviceError::io(
                op,
                range.clone(),
                std::io::Error::from_raw_os_error(5),
            )),
            _ => Ok(()),
        }
    }

    fn next_order(&self) -> u64 {
        let order = self.order.get();
        self.order.set(order + 1);
        order
    }

    fn make_stable(&self, order: u64, at: u64, bytes: &[u8]) {
        let block = u64::from(self.geometry.block_size);
        let mut orders = self.stable_order.borrow_mut();
        for (n, part) in bytes.chunks(block as usize).enumerate() {
            let pos = at + n as u64 * block;
            let newest = orders.entry(pos).or_default();
            if *newest <= order {
                *newest = order;
                self.stable.poke(pos, part);
            }
        }
    }

    async fn do_write(
        &self,
        op: Op,
        at: u64,
        bytes: Vec<u8>,
        fua: bool,
    ) -> Result<(), DeviceError> {
        let range = at..at + bytes.len() as u64;
        let id = self.next_order();
        self.writes.borrow_mut().push(range.clone());
        self.pending.borrow_mut().push(Pending {
            id,
            done: None,
            at,
            bytes: bytes.clone(),
        });
        self.power.request().await;
        self.take_time().await;
        if let Err(error) = self.fails(op, &range) {
            self.pending.borrow_mut().retain(|pending| pending.id != id);
            for (n, part) in bytes.chunks(self.geometry.block_size as usize).enumerate() {
                let at = at + n as u64 * u64::from(self.geometry.block_size);
                if self.rng.coin() {
                    self.current.poke(at, part);
                    self.pending.borrow_mut().push(Pending {
                        id: self.next_order(),
                        done: Some(self.order.get()),
                        at,
                        bytes: part.to_vec(),
                    });
                }
            }
            return Err(error);
        }
        let order = self.next_order();
        self.current.poke(at, &bytes);
        if fua {
            self.make_stable(order, at, &bytes);
            self.pending.borrow_mut().retain(|pending| pending.id != id);
        } else {
            let mut pending = self.pending.borrow_mut();
            pending
                .iter_mut()
                .find(|p| p.id == id)
                .expect("pending")
                .done = Some(order);
        }
        Ok(())
    }

    /// Writes that were issued and have not completed.
    pub fn writes_under_way(&self) -> usize {
        let pending = self.pending.borrow();
        pending.iter().filter(|write| write.done.is_none()).count()
    }

    /// The medium if the power were cut now.
    pub fn after_cut(&self, coin: Coin) -> Vec<u8> {
        let block = self.geometry.block_size as usize;
        let mut medium = image(&self.stable);
        let (orders, pending) = (self.stable_order.borrow(), self.pending.borrow());
        let mut pending: Vec<&Pending> = pending.iter().collect();
        pending.sort_by_key(|pending| pending.done.unwrap_or(u64::MAX));
        let mut kept = coin.toss();
        for write in pending {
            let order = write.done.unwrap_or(u64::MAX);
            for (n, part) in write.bytes.chunks(block).enumerate() {
                let at = write.at as usize + n * block;
                let newer = orders
                    .get(&(at as u64))
                    .is_some_and(|newest| *newest > order);
                if kept(n == 0) && !newer {
                    medium[at..at + block].copy_from_slice(part);
                }
            }
        }
        medium
    }

    /// What a flush that failed may do.
    fn lose_unflushed(&self) {
        let lost: Vec<Pending> = {
            let mut pending = self.pending.borrow_mut();
            let (lost, rest) = pending.drain(..).partition(|write| write.done.is_some());
            *pending = rest;
            lost
        };
        for write in lost {
            let mut old = vec![0; write.bytes.len()];
            self.stable.peek(write.at, &mut old);
            self.current.poke(write.at, &old);
        }
    }

    /// Changes what is stored, as rot does.
    pub fn rot(&self, at: u64, change: impl Fn(u8) -> u8) {
        let mut byte = [0];
        self.current.peek(at, &mut byte);
        let byte = [change(byte[0])];
        self.current.poke(at, &byte);
        self.stable.poke(at, &byte);
    }

    /// Makes requests fail.
    pub fn fail(&self, fault: impl Fn(Op, &Range<u64>) -> bool + 'static) {
        self.fault.replace(Some(Box::new(fault)));
    }

    /// What reads see now.
    pub fn now(&self) -> Vec<u8> {
        image(&self.current)
    }
}

fn image(device: &RamDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.geometry().len as usize];
    device.peek(0, &mut bytes);
    bytes
}

impl Device for Disk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, at: u64, mut buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            self.take_time().await;
            self.fails(Op::Read, &(at..at + buf.len() as u64))?;
            self.current.peek(at, &mut buf);
            Ok(buf)
        })
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(self.do_write(Op::Write, at, buf.to_vec(), durability == Durability::Fua))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let covered: Vec<u64> = {
                let pending = self.pending.borrow();
                pending
                    .iter()
                    .filter(|p| p.done.is_some())
                    .map(|p| p.id)
                    .collect()
            };
            self.power.request().await;
            match self.flush_takes.get() {
                Some(span) => self.rt.sleep(span).await,
                None => self.take_time().await,
            }
            self.power.stop_if_off().await;
            if let Err(error) = self.fails(Op::Flush, &(0..0)) {
                if self.forgetful.get() {
                    self.lose_unflushed();
                }
                return Err(error);
            }
            let mut pending = self.pending.borrow_mut();
            let (durable, rest): (Vec<_>, Vec<_>) = pending
                .drain(..)
                .partition(|pending| covered.contains(&pending.id));
            *pending = rest;
            for Pending {
                done, at, bytes, ..
            } in durable
            {
                self.make_stable(done.expect("completed"), at, &bytes);
            }
            self.flushes.set(self.flushes.get() + 1);
            Ok(())
        })
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        let zeroes = vec![0; (range.end - range.start) as usize];
        Box::pin(self.do_write(Op::Discard, range.start, zeroes, false))
    }

    fn write_zeroes(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        let zeroes = vec![0; (range.end - range.start) as usize];
        Box::pin(self.do_write(Op::WriteZeroes, range.start, zeroes, false))
    }
}
