//! Members that record their requests, with adjustable latency and faults.
#![allow(dead_code, reason = "each test file uses a part")]

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture, RamDevice,
    Result, Tap, TapHooks, TapRequest, ZeroedSpace,
};
use forebay_raid::ParityArray;
use forebay_rng::Rng;
use forebay_rt::{Executor, Rt, VirtualTime};

pub(crate) fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce(Rt) -> F) -> T {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(test(executor.rt()))
}

pub(crate) fn buf(bytes: &[u8]) -> Buf {
    BufMut::copy_of(bytes).freeze()
}

pub(crate) fn filled(len: usize, byte: u8) -> Buf {
    buf(&vec![byte; len])
}

pub(crate) async fn read(device: &dyn Device, at: u64, len: usize) -> Result<Vec<u8>> {
    Ok(device.read(at, BufMut::zeroed(len)).await?.to_vec())
}

/// The requests of a member that fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MemberFault {
    Nothing,
    Reads,
    /// A failing write has written the first half of its blocks.
    Writes,
    Flushes,
    All,
}

/// The behaviour of a member's requests.
pub(crate) struct MemberHooks {
    rt: Rt,
    asked: RefCell<Vec<(DeviceOp, Range<u64>)>>,
    takes: Cell<Duration>,
    jitter: RefCell<Option<Rng>>,
    fault: RefCell<(MemberFault, Range<u64>)>,
    volatile: bool,
    fua: Cell<bool>,
    ram: Rc<RamDevice>,
}

/// A member.
pub(crate) type MemberDevice = Tap<Rc<RamDevice>, MemberHooks>;

impl MemberHooks {
    /// Returns the requests since the last call.
    pub(crate) fn asked(&self) -> Vec<(DeviceOp, Range<u64>)> {
        self.asked.take()
    }

    /// Returns the kinds of the requests since the last call.
    pub(crate) fn ops(&self) -> Vec<DeviceOp> {
        self.asked().into_iter().map(|(op, _)| op).collect()
    }

    /// Returns true if a write was requested with FUA.
    pub(crate) fn took_fua(&self) -> bool {
        self.fua.get()
    }

    pub(crate) fn takes(&self, time: Duration) {
        self.takes.set(time);
    }

    /// Gives each request a random latency from now on.
    pub(crate) fn takes_any(&self, seed: u64) {
        self.jitter.replace(Some(Rng::new(seed)));
    }

    pub(crate) fn fails(&self, fault: MemberFault, within: Range<u64>) {
        self.fault.replace((fault, within));
    }

    fn fault_of(&self, asked: &TapRequest) -> bool {
        let (fault, within) = self.fault.borrow().clone();
        let range = asked.range();
        let hit = range.start < within.end && within.start < range.end;
        match (fault, asked.op()) {
            (MemberFault::Nothing, _) => false,
            (MemberFault::Flushes | MemberFault::All, DeviceOp::Flush) => true,
            (MemberFault::Reads | MemberFault::All, DeviceOp::Read) => hit,
            (
                MemberFault::Writes | MemberFault::All,
                DeviceOp::Write | DeviceOp::WriteZeroes | DeviceOp::Discard,
            ) => hit,
            _ => false,
        }
    }

    /// Applies the first half of a failing request.
    fn half_done(&self, asked: &TapRequest) {
        let range = asked.range();
        let half = (range.end - range.start) / 1024 * 512;
        match asked {
            TapRequest::Write(at, data, _) => self.ram.poke(*at, &data[..half as usize]),
            TapRequest::WriteZeroes(..) => self.ram.poke(range.start, &vec![0; half as usize]),
            _ => {}
        }
    }
}

impl TapHooks for MemberHooks {
    fn geometry(&self, below: DeviceGeometry) -> DeviceGeometry {
        DeviceGeometry {
            volatile: self.volatile,
            ..below
        }
    }

    async fn before(&self, asked: &TapRequest) -> Result<()> {
        self.asked.borrow_mut().push((asked.op(), asked.range()));
        if let TapRequest::Write(_, _, Durability::Fua) = asked {
            self.fua.set(true);
        }
        let jitter = self.jitter.borrow().as_ref().map(|rng| rng.below(1000));
        let takes = jitter.map_or(self.takes.get(), Duration::from_micros);
        if takes > Duration::ZERO {
            self.rt.sleep(takes).await;
        }
        if self.fault_of(asked) {
            self.half_done(asked);
            let error = std::io::Error::other("as the test asks");
            return Err(DeviceError::io(asked.op(), asked.range(), error));
        }
        Ok(())
    }
}

pub(crate) fn member(rt: &Rt, len: u64, volatile: bool) -> Rc<MemberDevice> {
    let ram = Rc::new(RamDevice::new(len, 512));
    let ways = MemberHooks {
        rt: rt.clone(),
        asked: RefCell::default(),
        takes: Cell::new(Duration::ZERO),
        jitter: RefCell::default(),
        fault: RefCell::new((MemberFault::Nothing, 0..0)),
        volatile,
        fua: Cell::new(false),
        ram: Rc::clone(&ram),
    };
    Rc::new(Tap::new(ram, ways))
}

pub(crate) fn members(rt: &Rt, count: usize, len: u64) -> Vec<Rc<MemberDevice>> {
    (0..count).map(|_| member(rt, len, false)).collect()
}

pub(crate) fn devices(members: &[Rc<MemberDevice>]) -> Vec<Rc<dyn Device>> {
    let device = |member: &Rc<MemberDevice>| Rc::clone(member) as Rc<dyn Device>;
    members.iter().map(device).collect()
}

/// A device with a changed geometry.
pub(crate) struct GeometryOverride<F> {
    pub(crate) below: RamDevice,
    pub(crate) change: F,
}

impl<F: Fn(DeviceGeometry) -> DeviceGeometry> Device for GeometryOverride<F> {
    fn geometry(&self) -> DeviceGeometry {
        (self.change)(self.below.geometry())
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.below.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        self.below.write(at, buf, durability)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.below.flush()
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.below.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.below.write_zeroes(range, room)
    }
}

pub(crate) fn parity(rt: &Rt, members: &[Rc<MemberDevice>], unit: u32) -> ParityArray {
    let members = devices(members).into_iter().map(Some).collect();
    ParityArray::new(rt, members, unit).unwrap()
}

/// Returns true if the sum of the members' contents is zero everywhere.
pub(crate) fn sum_is_zero(members: &[Rc<MemberDevice>]) -> bool {
    let len = members[0].below.geometry().len as usize;
    let mut sum = vec![0; len];
    for member in members {
        let mut bytes = vec![0; len];
        member.below.peek(0, &mut bytes);
        sum.iter_mut()
            .zip(bytes)
            .for_each(|(sum, byte)| *sum ^= byte);
    }
    sum.iter().all(|byte| *byte == 0)
}
