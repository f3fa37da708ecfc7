//! A volume's device behind its freeze.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, PlacementHandle, Result, ZeroedSpace,
};

use super::VolumeFreeze;
use super::state::WriteClass;

/// A device whose writes, discards and zeroes wait while its volume is frozen.
pub struct FreezableDevice {
    below: Rc<dyn Device>,
    freeze: VolumeFreeze,
}

impl FreezableDevice {
    /// Wraps a device.
    pub fn new(below: Rc<dyn Device>, freeze: VolumeFreeze) -> FreezableDevice {
        FreezableDevice { below, freeze }
    }
}

impl Device for FreezableDevice {
    fn geometry(&self) -> DeviceGeometry {
        self.below.geometry()
    }

    fn refresh_len(&self) -> Result<u64> {
        self.below.refresh_len()
    }

    fn place(&self, range: Range<u64>, handle: PlacementHandle) {
        self.below.place(range, handle);
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.below.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let _passed = self.freeze.pass(WriteClass::Client).await;
            self.below.write(at, buf, durability).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.below.flush()
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let _passed = self.freeze.pass(WriteClass::Client).await;
            self.below.discard(range).await
        })
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let _passed = self.freeze.pass(WriteClass::Client).await;
            self.below.write_zeroes(range, room).await
        })
    }
}
