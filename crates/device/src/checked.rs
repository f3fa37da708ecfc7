//! Enforcement of the device contract between layers.

use std::cell::Cell;
use std::ops::Range;

use crate::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture,
    PlacementHandle, Result, ZeroedSpace,
};

/// A device that rejects requests that violate the contract before the device below receives them, and traces every
/// request (target `forebay::io`, level trace).
///
/// Rejected requests are empty, unaligned, or reach past the end.
pub struct CheckedDevice<D> {
    below: D,
    block: u64,
    /// Last known length: the device below may have become longer.
    len: Cell<u64>,
    name: &'static str,
}

impl<D: Device> CheckedDevice<D> {
    /// Wraps `below`; `name` identifies the device in traces.
    ///
    /// # Panics
    /// If the device's geometry violates the contract.
    pub fn new(below: D, name: &'static str) -> CheckedDevice<D> {
        let geometry = below.geometry();
        let (block, physical) = (geometry.block_size, geometry.physical_block_size);
        assert!(block == 512 || block == 4096, "{name}: block size {block}");
        assert!(
            physical.is_power_of_two() && physical >= block,
            "{name}: physical {physical}"
        );
        assert!(
            geometry.len.is_multiple_of(block.into()),
            "{name}: length {}",
            geometry.len
        );
        assert!(
            geometry.discard_granularity > 0 || !geometry.zeroes_by_unmapping,
            "{name}: supports unmap but not discard"
        );
        CheckedDevice {
            below,
            block: block.into(),
            len: Cell::new(geometry.len),
            name,
        }
    }

    /// Returns the device below.
    pub fn below(&self) -> &D {
        &self.below
    }

    fn check(&self, op: DeviceOp, at: u64, len: u64) -> Result<Range<u64>> {
        let block = self.block;
        let range = at..at.saturating_add(len);
        tracing::trace!(target: "forebay::io", device = self.name, %op, at, len);
        if len == 0 || !at.is_multiple_of(block) || !len.is_multiple_of(block) {
            return Err(DeviceError::Unaligned {
                op,
                range,
                block_size: block as u32,
            });
        }
        if !self.is_inside(at, len) {
            return Err(DeviceError::OutOfRange {
                op,
                range,
                len: self.len.get(),
            });
        }
        Ok(range)
    }
}

impl<D: Device> CheckedDevice<D> {
    fn is_inside(&self, at: u64, len: u64) -> bool {
        let is_inside = || at.checked_add(len).is_some_and(|to| to <= self.len.get());
        if is_inside() {
            return true;
        }
        self.len.set(self.below.geometry().len);
        is_inside()
    }
}

fn refused<'a, T: 'a>(error: DeviceError) -> IoFuture<'a, T> {
    Box::pin(std::future::ready(Err(error)))
}

impl<D: Device> Device for CheckedDevice<D> {
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
        match self.check(DeviceOp::Read, at, buf.len() as u64) {
            Ok(_) => self.below.read(at, buf),
            Err(error) => refused(error),
        }
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        match self.check(DeviceOp::Write, at, buf.len() as u64) {
            Ok(_) => self.below.write(at, buf, durability),
            Err(error) => refused(error),
        }
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        tracing::trace!(target: "forebay::io", device = self.name, op = "flush");
        self.below.flush()
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        match self.check(
            DeviceOp::Discard,
            range.start,
            range.end.saturating_sub(range.start),
        ) {
            Ok(range) => self.below.discard(range),
            Err(error) => refused(error),
        }
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        match self.check(
            DeviceOp::WriteZeroes,
            range.start,
            range.end.saturating_sub(range.start),
        ) {
            Ok(range) => self.below.write_zeroes(range, room),
            Err(error) => refused(error),
        }
    }
}
