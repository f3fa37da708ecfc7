//! A part of a device, as a device.

use std::ops::Range;
use std::rc::Rc;

use crate::{
    Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, PlacementHandle, ZeroedSpace,
};

/// A contiguous part of another device. Several slices may share the device below: then they share its actuator and its
/// queue, like partitions of a disk.
pub struct DeviceSlice {
    below: Rc<dyn Device>,
    start: u64,
    len: u64,
}

impl DeviceSlice {
    /// Returns `len` bytes of `below` from byte `start` on. `None` if this range is not inside `below`, or not in whole
    /// blocks.
    pub fn new(below: Rc<dyn Device>, start: u64, len: u64) -> Option<DeviceSlice> {
        let whole = below.geometry();
        let block = u64::from(whole.block_size);
        let fits = start.checked_add(len).is_some_and(|end| end <= whole.len);
        (fits && start.is_multiple_of(block) && len.is_multiple_of(block)).then_some(DeviceSlice {
            below,
            start,
            len,
        })
    }

    fn shift(&self, range: Range<u64>) -> Range<u64> {
        range.start + self.start..range.end + self.start
    }
}

impl Device for DeviceSlice {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry {
            len: self.len,
            ..self.below.geometry()
        }
    }

    fn place(&self, range: Range<u64>, handle: PlacementHandle) {
        self.below.place(self.shift(range), handle);
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.below.read(at + self.start, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        self.below.write(at + self.start, buf, durability)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.below.flush()
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.below.discard(self.shift(range))
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.below.write_zeroes(self.shift(range), room)
    }
}
