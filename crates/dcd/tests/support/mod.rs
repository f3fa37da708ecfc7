//! A world in a seed: disks with a volatile cache, on a virtual clock, whose power can be cut.
//!
//! What a [`Disk`] does: every request takes a random time; a write is seen by reads when it
//! completes; it is durable after a flush issued later, or at once with FUA. A power cut at the n-th
//! request of the world stops everything there: of each write not durable, finished or under way,
//! every block is kept or dropped by a coin.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, CreateOptions, DataIdentity, Volume, VolumeId};
use forebay_device::{
    Buf, BufMut, Checked, Device, DeviceError, Durability, Geometry, IoFuture, Op, RamDevice,
};
use forebay_rt::{Event, Executor, Rt, VirtualTime};
use forebay_units::ByteLen;

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

/// Power, shared by the disks of a world.
pub struct Power {
    requests: Cell<u64>,
    cut_at: Cell<Option<u64>>,
    off: Cell<bool>,
    went_off: Event,
}

impl Power {
    pub fn new(cut_at: Option<u64>) -> Rc<Power> {
        Rc::new(Power {
            requests: Cell::new(0),
            cut_at: Cell::new(cut_at),
            off: Cell::new(false),
            went_off: Event::new(),
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

struct Pending {
    id: u64,
    /// Order of completion; writes under way have none yet.
    done: Option<u64>,
    at: u64,
    bytes: Vec<u8>,
}

/// Whether a request fails.
pub type Fault = Box<dyn Fn(Op, &Range<u64>) -> bool>;

/// A disk of a world.
pub struct Disk {
    rt: Rt,
    power: Rc<Power>,
    rng: Rng,
    geometry: Geometry,
    current: RamDevice,
    stable: RamDevice,
    /// Which completion each durable block is from.
    stable_order: RefCell<std::collections::BTreeMap<u64, u64>>,
    pending: RefCell<Vec<Pending>>,
    order: Cell<u64>,
    /// Latency of a request is at most this.
    pub slowest: Cell<Duration>,
    /// Requests that fail: asked with the operation and its range.
    pub fault: RefCell<Option<Fault>>,
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
            if page.iter().any(|byte| *byte != 0) {
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
            fault: RefCell::new(None),
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

    /// The medium after the power was cut.
    pub fn after_cut(&self) -> Vec<u8> {
        let block = u64::from(self.geometry.block_size);
        let mut pending = std::mem::take(&mut *self.pending.borrow_mut());
        pending.sort_by_key(|pending| pending.done.unwrap_or(u64::MAX));
        for Pending {
            done, at, bytes, ..
        } in pending
        {
            for (n, part) in bytes.chunks(block as usize).enumerate() {
                if self.rng.coin() {
                    self.make_stable(done.unwrap_or(u64::MAX), at + n as u64 * block, part);
                }
            }
        }
        image(&self.stable)
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
            self.take_time().await;
            self.fails(Op::Flush, &(0..0))?;
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

/// Bytes of the smallest log with segments of 128 KiB.
pub const LOG_BYTES: u64 = (1 << 20) + 32 * (128 << 10);
pub const VOLUME: VolumeId = VolumeId([7; 16]);

pub fn identity(len: u64) -> DataIdentity {
    DataIdentity {
        len,
        path: "data".into(),
        names: vec!["serial-1".into()],
    }
}

/// Two disks and the executor they live on.
pub struct World {
    pub executor: Executor,
    pub rt: Rt,
    pub rng: Rng,
    pub power: Rc<Power>,
    pub log: Rc<Disk>,
    pub data: Rc<Disk>,
}

impl World {
    /// A world with these images, whose power goes off at request `cut_at`.
    pub fn with_images(seed: u64, cut_at: Option<u64>, log: &[u8], data: &[u8]) -> World {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let (rt, rng, power) = (executor.rt(), Rng::new(seed), Power::new(cut_at));
        let log = Disk::new(&rt, &power, &rng, log, 512);
        let data = Disk::new(&rt, &power, &rng, data, 512);
        World {
            executor,
            rt,
            rng,
            power,
            log,
            data,
        }
    }

    /// Runs to the end, or to the power cut: then `None`.
    pub fn run<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Option<T> {
        let power = Rc::clone(&self.power);
        self.executor.block_on(async move {
            let future = std::pin::pin!(future);
            let off = std::pin::pin!(power.until_off());
            match futures_util::future::select(future, off).await {
                futures_util::future::Either::Left((out, _)) => Some(out),
                futures_util::future::Either::Right(_) => None,
            }
        })
    }

    /// Attaches the volume and gives it to `each`.
    pub fn with_volume<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        options: AttachOptions,
        each: impl FnOnce(Volume) -> F + 'static,
    ) -> Option<T> {
        let (rt, log, data) = (self.rt.clone(), Rc::clone(&self.log), Rc::clone(&self.data));
        self.run(async move {
            let identity = identity(data.geometry().len);
            let (volume, _) = Volume::attach(rt, log, data, identity, options)
                .await
                .expect("attach");
            each(volume).await
        })
    }
}

/// The image of a fresh log of `len` bytes for a data device that holds `data`.
pub fn fresh_log(len: u64, data: &[u8]) -> Vec<u8> {
    let world = World::with_images(0, None, &vec![0; len as usize], data);
    let (log, home) = (Rc::clone(&world.log), Rc::clone(&world.data));
    let options = CreateOptions {
        name: "test".into(),
        volume: VOLUME,
        segment: ByteLen::kib(128),
        data: identity(data.len() as u64),
    };
    world
        .run(async move {
            forebay_dcd::create(log, home, options)
                .await
                .expect("create")
        })
        .expect("no cut");
    world.log.now()
}

/// The volume as a checked device.
pub fn checked(volume: &Volume) -> Checked<Volume> {
    Checked::new(volume.clone(), "volume")
}

pub async fn read_all(device: &dyn Device) -> Result<Vec<u8>, DeviceError> {
    let len = device.geometry().len;
    let mut out = Vec::new();
    while (out.len() as u64) < len {
        let n = (len - out.len() as u64).min(1 << 20);
        out.extend_from_slice(
            &device
                .read(out.len() as u64, BufMut::zeroed(n as usize))
                .await?,
        );
    }
    Ok(out)
}

/// Data that tells which write it is from.
pub fn stamp(id: u64, at: u64, len: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len as usize);
    for sector in at / 512..(at + len) / 512 {
        let mut rng = id.wrapping_mul(0x9e37_79b9).wrapping_add(sector << 32 | 1);
        for _ in 0..64 {
            rng = rng
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            bytes.extend_from_slice(&rng.to_le_bytes());
        }
    }
    bytes
}
