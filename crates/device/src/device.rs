//! The contract of a device.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;

use crate::{Buf, BufMut, Result};

/// The future of one request. It borrows the device, is not `Send`, and must be driven to its end. If it is dropped
/// before, the request may or may not take effect.
pub type IoFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// Properties of a device. They do not change while the device is open, with one exception: [`Device::refresh_len`] may
/// find a longer device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceGeometry {
    /// Length in bytes; a multiple of `block_size`.
    pub len: u64,
    /// Smallest unit of a request, in bytes: 512 or 4096.
    pub block_size: u32,
    /// Unit of atomic writes, in bytes: a power of two, at least `block_size`.
    pub physical_block_size: u32,
    /// Request size that the device serves efficiently, in bytes.
    pub preferred_io: u32,
    /// True if completed writes may be lost until a flush completes.
    pub volatile: bool,
    /// Unit in which discards take effect, in bytes; 0 if discards do nothing.
    pub discard_granularity: u32,
    /// True if [`Device::write_zeroes`] with [`ZeroedSpace::Release`] releases space as a discard does, and writes at most the
    /// edges. Then zeroing a large range is cheap. Only true if discards take effect.
    pub zeroes_by_unmapping: bool,
}

/// Treatment of the space of a zeroed range, on a device that allocates space as it is written (a sparse file, thin
/// provisioning, flash).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZeroedSpace {
    /// The range keeps its space: a later write there does not fail for lack of space.
    Keep,
    /// The space is released, if the device can do this. A range without space stays without.
    Release,
}

/// Time at which a write must be durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// After the next completed flush.
    Flush,
    /// At the completion of the write (the block layer's forced unit access).
    Fua,
}

/// Group of writes that a device should store together, because they will be discarded at about the same time.
///
/// The counterpart of a placement handle of NVMe Flexible Data Placement (TP4146) and of a write stream of the Linux
/// block layer. The handle is a hint: it changes neither the device's content nor its guarantees.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PlacementHandle(pub u16);

/// A block device. Any number of requests may be in flight; they complete independently of each other.
///
/// Offsets and lengths are in bytes. They must be multiples of `block_size`, inside the device, and not empty;
/// [`crate::CheckedDevice`] enforces this.
pub trait Device {
    /// Returns the properties of the device.
    fn geometry(&self) -> DeviceGeometry;

    /// Checks whether the device became longer, and returns its length in bytes. A longer length is valid from then on.
    /// A shorter length changes nothing: requests past the end fail. Devices that cannot be resized return their fixed
    /// length.
    ///
    /// # Errors
    /// If the length cannot be read.
    fn refresh_len(&self) -> Result<u64> {
        Ok(self.geometry().len)
    }

    /// Assigns future writes to `range` to `handle`, until another call reassigns the range. Bytes that were never
    /// assigned belong to handle 0. A device without placement does nothing.
    fn place(&self, range: Range<u64>, handle: PlacementHandle) {
        let _ = (range, handle);
    }

    /// Fills all of `buf` from byte `at` on, and returns `buf`.
    ///
    /// # Errors
    /// If any part could not be read; then no data is returned.
    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut>;

    /// Writes all of `buf` at byte `at`. A read issued after the write completes returns the new data.
    ///
    /// # Errors
    /// After an error, each block of the range holds old or new data.
    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()>;

    /// Makes every write durable that completed before the flush was issued.
    ///
    /// # Errors
    /// After an error, any of the writes since the last successful flush may be lost.
    fn flush(&self) -> IoFuture<'_, ()>;

    /// Discards `range`: its content is no longer needed, and is unspecified until written again.
    ///
    /// # Errors
    /// If the device tried and failed. A device without discards does nothing, and reports this in
    /// [`DeviceGeometry::discard_granularity`].
    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()>;

    /// Zeroes `range` by the cheapest means that treats its space according to `room`. As durable as a write. A device
    /// that cannot unmap writes the zeroes, which may take as long as an ordinary write; see
    /// [`DeviceGeometry::zeroes_by_unmapping`].
    ///
    /// # Errors
    /// As for a write.
    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()>;
}

impl<D: Device + ?Sized> Device for Rc<D> {
    fn geometry(&self) -> DeviceGeometry {
        (**self).geometry()
    }

    fn refresh_len(&self) -> Result<u64> {
        (**self).refresh_len()
    }

    fn place(&self, range: Range<u64>, handle: PlacementHandle) {
        (**self).place(range, handle);
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        (**self).read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        (**self).write(at, buf, durability)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        (**self).flush()
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        (**self).discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        (**self).write_zeroes(range, room)
    }
}
