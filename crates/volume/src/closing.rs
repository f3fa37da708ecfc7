//! Refusal of requests once a volume is being closed.

use std::cell::Cell;
use std::ops::Range;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture,
    PlacementHandle, Result, ZeroedSpace,
};
use forebay_rt::Event;

/// A gate for requests: it counts the requests in progress, and is closed for ever once.
#[derive(Default)]
pub(crate) struct RequestGate {
    closing: Cell<bool>,
    under_way: Cell<u64>,
    idle: Event,
}

/// A request in progress.
pub(crate) struct PassedRequest<'a>(&'a RequestGate);

impl Drop for PassedRequest<'_> {
    fn drop(&mut self) {
        let left = self.0.under_way.get() - 1;
        self.0.under_way.set(left);
        if left == 0 {
            self.0.idle.notify_all();
        }
    }
}

impl RequestGate {
    /// Counts a request as in progress until the result is dropped.
    ///
    /// # Errors
    /// If closing has begun.
    pub(crate) fn pass(&self, op: DeviceOp) -> Result<PassedRequest<'_>> {
        if self.closing.get() {
            return Err(DeviceError::Closed { op });
        }
        self.under_way.set(self.under_way.get() + 1);
        Ok(PassedRequest(self))
    }

    /// Returns true while a request is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.under_way.get() > 0
    }

    /// Refuses new requests, and waits until requests in progress have ended.
    pub(crate) async fn close(&self) {
        self.closing.set(true);
        let done = || (self.under_way.get() == 0).then_some(());
        self.idle.until(done).await;
    }
}

/// A device that refuses requests once closing begins.
pub(crate) struct ClosingDevice<D> {
    device: D,
    gate: RequestGate,
}

impl<D: Device> ClosingDevice<D> {
    /// Wraps a device.
    pub(crate) fn new(device: D) -> ClosingDevice<D> {
        ClosingDevice {
            device,
            gate: RequestGate::default(),
        }
    }

    /// Returns the device below, which refuses nothing.
    pub(crate) fn below(&self) -> &D {
        &self.device
    }

    /// Returns true while a request is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.gate.is_busy()
    }

    /// Refuses new requests, waits until requests in progress have ended, and makes the data durable.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) async fn close(&self) -> Result<()> {
        self.gate.close().await;
        self.device.flush().await
    }

    async fn request<T>(&self, op: DeviceOp, work: IoFuture<'_, T>) -> Result<T> {
        let _passed = self.gate.pass(op)?;
        work.await
    }
}

impl<D: Device> Device for ClosingDevice<D> {
    fn geometry(&self) -> DeviceGeometry {
        self.device.geometry()
    }

    fn refresh_len(&self) -> Result<u64> {
        self.device.refresh_len()
    }

    fn place(&self, range: Range<u64>, handle: PlacementHandle) {
        self.device.place(range, handle);
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(self.request(DeviceOp::Read, self.device.read(at, buf)))
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(self.request(DeviceOp::Write, self.device.write(at, buf, durability)))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(self.request(DeviceOp::Flush, self.device.flush()))
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(self.request(DeviceOp::Discard, self.device.discard(range)))
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        let zeroes = self.device.write_zeroes(range, room);
        Box::pin(self.request(DeviceOp::WriteZeroes, zeroes))
    }
}
