//! A cache behind the gate of a freeze, as in a daemon.

use std::ops::{Deref, Range};
use std::rc::Rc;

use forebay_dcd::{DcdVolume, HoldError};
use forebay_device::{Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, ZeroedSpace};
use forebay_frontend::freeze::{FreezableDevice, StillVolume, VolumeFreeze};
use forebay_rt::Rt;

/// An attached cache whose writes can be held back.
#[derive(Clone)]
pub struct FreezableCache {
    volume: Rc<DcdVolume>,
    pub(super) gate: VolumeFreeze,
    served: Rc<FreezableDevice>,
}

impl FreezableCache {
    pub(super) fn new(rt: &Rt, volume: DcdVolume) -> FreezableCache {
        let (volume, gate) = (Rc::new(volume), VolumeFreeze::new(rt));
        let below = Rc::clone(&volume) as Rc<dyn Device>;
        FreezableCache {
            served: Rc::new(FreezableDevice::new(below, gate.clone())),
            volume,
            gate,
        }
    }
}

impl Deref for FreezableCache {
    type Target = DcdVolume;

    fn deref(&self) -> &DcdVolume {
        &self.volume
    }
}

impl StillVolume for FreezableCache {
    type Failure = HoldError;

    async fn drain(&self) -> Result<(), HoldError> {
        Ok(self.volume.drain().await?)
    }

    async fn hold_still(&self) -> Result<(), HoldError> {
        self.volume.hold_still().await
    }

    fn resume(&self) {
        self.volume.resume();
    }
}

impl Device for FreezableCache {
    fn geometry(&self) -> DeviceGeometry {
        self.served.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.served.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        self.served.write(at, buf, durability)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.served.flush()
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.served.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.served.write_zeroes(range, room)
    }
}
