//! A device with hooks around its requests.

use std::future::{Future, ready};
use std::ops::{Deref, Range};

use crate::{
    Buf, BufMut, Device, DeviceGeometry, DeviceOp, Durability, IoFuture, PlacementHandle, Result,
    ZeroedSpace,
};

/// A request to a [`Tap`].
#[derive(Clone)]
pub enum TapRequest {
    /// Reads these bytes.
    Read(Range<u64>),
    /// Writes a buffer from a byte on.
    Write(u64, Buf, Durability),
    /// Flushes.
    Flush,
    /// Discards these bytes.
    Discard(Range<u64>),
    /// Zeroes these bytes.
    WriteZeroes(Range<u64>, ZeroedSpace),
}

impl TapRequest {
    /// Returns the kind of request.
    pub fn op(&self) -> DeviceOp {
        match self {
            TapRequest::Read(_) => DeviceOp::Read,
            TapRequest::Write(..) => DeviceOp::Write,
            TapRequest::Flush => DeviceOp::Flush,
            TapRequest::Discard(_) => DeviceOp::Discard,
            TapRequest::WriteZeroes(..) => DeviceOp::WriteZeroes,
        }
    }

    /// Returns the bytes of the request; empty for a flush.
    pub fn range(&self) -> Range<u64> {
        match self {
            TapRequest::Read(range)
            | TapRequest::Discard(range)
            | TapRequest::WriteZeroes(range, _) => range.clone(),
            TapRequest::Write(at, buf, _) => *at..*at + buf.len() as u64,
            TapRequest::Flush => 0..0,
        }
    }

    /// Returns true if the request may change the device's content.
    pub fn changes(&self) -> bool {
        !matches!(self, TapRequest::Read(_) | TapRequest::Flush)
    }
}

/// Hooks of a [`Tap`], which count, record, delay or fail its requests.
pub trait TapHooks {
    /// Returns the geometry of the tap; `below` is that of the device below.
    fn geometry(&self, below: DeviceGeometry) -> DeviceGeometry {
        below
    }

    /// Runs before the request.
    ///
    /// # Errors
    /// Becomes the error of the request, which is not passed on.
    fn before(&self, _asked: &TapRequest) -> impl Future<Output = Result<()>> {
        ready(Ok(()))
    }

    /// Returns the result of [`Device::refresh_len`]; `len` is that of the device below.
    fn refreshed(&self, len: u64) -> u64 {
        len
    }

    /// Runs after a request that succeeded.
    ///
    /// # Errors
    /// Becomes the error of the request, whose effect stays.
    fn after(&self, _asked: &TapRequest) -> impl Future<Output = Result<()>> {
        ready(Ok(()))
    }
}

/// A device that passes all requests on to another device, with hooks before and after: for tests and simulations. The
/// tap dereferences to its hooks.
pub struct Tap<D, H> {
    /// The device that requests are passed on to.
    pub below: D,
    hooks: H,
}

impl<D: Device, H: TapHooks> Tap<D, H> {
    /// Creates a tap in front of `below`.
    pub fn new(below: D, hooks: H) -> Tap<D, H> {
        Tap { below, hooks }
    }

    fn around<'a, T: 'a>(
        &'a self,
        asked: TapRequest,
        request: impl FnOnce(&'a D) -> IoFuture<'a, T> + 'a,
    ) -> IoFuture<'a, T> {
        Box::pin(async move {
            self.hooks.before(&asked).await?;
            let done = request(&self.below).await?;
            self.hooks.after(&asked).await?;
            Ok(done)
        })
    }
}

impl<D, H> Deref for Tap<D, H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.hooks
    }
}

impl<D: Device, H: TapHooks> Device for Tap<D, H> {
    fn geometry(&self) -> DeviceGeometry {
        self.hooks.geometry(self.below.geometry())
    }

    fn refresh_len(&self) -> Result<u64> {
        let len = self.below.refresh_len()?;
        Ok(self.hooks.refreshed(len))
    }

    fn place(&self, range: Range<u64>, handle: PlacementHandle) {
        self.below.place(range, handle);
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        let asked = TapRequest::Read(at..at + buf.len() as u64);
        self.around(asked, move |below| below.read(at, buf))
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        let asked = TapRequest::Write(at, buf.clone(), durability);
        self.around(asked, move |below| below.write(at, buf, durability))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.around(TapRequest::Flush, |below| below.flush())
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        let asked = TapRequest::Discard(range.clone());
        self.around(asked, move |below| below.discard(range))
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        let asked = TapRequest::WriteZeroes(range.clone(), room);
        self.around(asked, move |below| below.write_zeroes(range, room))
    }
}
