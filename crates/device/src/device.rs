//! The contract.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;

use crate::{Buf, BufMut, Result};

/// The future of one request. It borrows the device, is not `Send`, and must be driven to its end:
/// dropping it halfway leaves open whether the request takes effect.
pub type IoFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// What a device is like. Does not change while the device is open, but that a device may become longer: when it is asked
/// to look ([`Device::refresh_len`]), and not otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Length in bytes; a multiple of `block_size`.
    pub len: u64,
    /// Smallest unit of a request, in bytes: 512 or 4096.
    pub block_size: u32,
    /// The unit a write of which is atomic, in bytes: a power of two, at least `block_size`.
    pub physical_block_size: u32,
    /// The request size that serves the device well, in bytes.
    pub preferred_io: u32,
    /// True if completed writes may be lost until a flush completes.
    pub volatile: bool,
    /// Unit in which discards take effect, in bytes; 0 if discards do nothing.
    pub discard_granularity: u32,
    /// True if [`Device::write_zeroes`] with [`Room::Release`] gives room back as a discard does and
    /// writes no more than the edges: a large range costs little. Only where discards take effect.
    pub zeroes_by_unmapping: bool,
}

/// What becomes of the room that a zeroed range takes on a device which gives out room as it is
/// written (a sparse file, thin provisioning, flash).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// It stays the range's: a later write there does not fail for lack of it.
    Keep,
    /// It is given back, where the device can; and where the range has none, none is taken.
    Release,
}

/// When a write must be durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// After the next completed flush.
    Flush,
    /// When the write completes (the block layer's forced unit access).
    Fua,
}

/// Group of writes that a device should keep together on its medium, because they will be discarded at about the same time.
///
/// The counterpart of a placement handle of NVMe Flexible Data Placement (TP4146) and of a write stream of the Linux block
/// layer. It is a hint: it changes neither what a device holds nor what it promises.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PlacementHandle(pub u16);

/// A block device. Requests may be in flight in any number; each completes in its own time.
///
/// Offsets and lengths are bytes, multiples of `block_size`, inside the device, and not empty;
/// [`crate::Checked`] holds callers to that.
pub trait Device {
    /// What the device is like.
    fn geometry(&self) -> Geometry;

    /// Looks if the medium became longer, and returns its length in bytes. A longer one is the device's from then on.
    /// A shorter one changes nothing: requests past its end fail. Devices that are never resized have the
    /// length that they have.
    ///
    /// # Errors
    /// If the medium cannot be asked.
    fn refresh_len(&self) -> Result<u64> {
        Ok(self.geometry().len)
    }

    /// Says that writes to `range` from now on belong to `handle`, until another call says otherwise. Bytes that no call
    /// named belong to handle 0. A device without placement does nothing.
    fn place(&self, range: Range<u64>, handle: PlacementHandle) {
        let _ = (range, handle);
    }

    /// Reads the whole of `buf` from byte `at`, and gives `buf` back.
    ///
    /// # Errors
    /// If any part could not be read; then nothing of it is given.
    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut>;

    /// Writes the whole of `buf` at byte `at`. A read issued after this completes sees it.
    ///
    /// # Errors
    /// Then the range holds old data, new data or a mixture, block by block.
    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()>;

    /// When it completes, every write that had completed when it was issued is durable.
    ///
    /// # Errors
    /// Then any of the writes since the last good flush may be lost.
    fn flush(&self) -> IoFuture<'_, ()>;

    /// Says that `range` is no longer needed. Its content is unspecified until written again.
    ///
    /// # Errors
    /// If the device tried and failed. One that does not support it does nothing and says so in
    /// [`Geometry::discard_granularity`].
    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()>;

    /// Makes `range` read as zeroes, by the cheapest means that does with its room what `room` says.
    /// As durable as a write. A device that cannot unmap writes the zeroes, which may take as long as
    /// writing them does: [`Geometry::zeroes_by_unmapping`] tells.
    ///
    /// # Errors
    /// As for a write.
    fn write_zeroes(&self, range: Range<u64>, room: Room) -> IoFuture<'_, ()>;
}

impl<D: Device + ?Sized> Device for Rc<D> {
    fn geometry(&self) -> Geometry {
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

    fn write_zeroes(&self, range: Range<u64>, room: Room) -> IoFuture<'_, ()> {
        (**self).write_zeroes(range, room)
    }
}
