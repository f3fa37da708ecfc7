//! Devices on one disk, whose volatile cache they share.
//!
//! A disk that fails a flush may lose every write in its volatile cache, of any device. The system reports the failure
//! once, to the issuer of that flush. A flush of another device on the disk succeeds afterwards, but does not make the
//! lost writes durable. So a device here fails its next flush if a flush of another device on the disk failed and this
//! device had writes that were not durable. The layer above then handles this like any failed flush.
//!
//! Invariants:
//! - A flush succeeds only if no flush of another device failed between the first write that it covers and its own end.
//! - A write with FUA succeeds only if no flush of another device failed while the write was in flight.
//! - A failed write with FUA is treated as a failed flush: a device may carry such a write out as a write and a flush,
//!   and it is unknown which of the two failed.
//! - Flushes do not overlap.
//! - A flush or a write with FUA succeeds only when all that were under way at its end have ended: a disk may report
//!   late that it failed one of them.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use forebay_rt::Lock;

use crate::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, DurableRequests,
    IoFuture, Result, ZeroedSpace,
};

/// A device on a disk that other devices share.
pub struct OneDisk {
    below: Rc<dyn Device>,
    shared: Rc<SharedDisk>,
    /// Index of this device's state in `shared`.
    index: usize,
}

/// State of the disk.
struct SharedDisk {
    /// Held while the disk flushes.
    flushing: Rc<Lock>,
    /// Flushes and writes with FUA of all devices.
    durable: DurableRequests,
    /// Cause of the newest failed flush.
    cause: RefCell<Arc<str>>,
    parts: Vec<SharedDiskPart>,
}

/// State of one device on the disk. Writes with FUA and discards are not counted.
#[derive(Default)]
struct SharedDiskPart {
    /// Writes issued.
    issued: Cell<u64>,
    /// Writes completed.
    completed: Cell<u64>,
    /// Writes made durable by a flush.
    durable: Cell<u64>,
    /// Failed flushes of the other devices.
    failures: Cell<u64>,
    /// True if writes of this device may be lost and the layer above has not received the error yet.
    lost: Cell<bool>,
}

impl OneDisk {
    /// Wraps devices that share a disk.
    pub fn over<const N: usize>(devices: [Rc<dyn Device>; N]) -> [Rc<OneDisk>; N] {
        let shared = Rc::new(SharedDisk {
            flushing: Rc::default(),
            durable: DurableRequests::default(),
            cause: RefCell::new("".into()),
            parts: (0..N).map(|_| SharedDiskPart::default()).collect(),
        });
        let mut index = 0..N;
        devices.map(|below| {
            Rc::new(OneDisk {
                below,
                shared: Rc::clone(&shared),
                index: index.next().expect("one index for each device"),
            })
        })
    }

    fn own(&self) -> &SharedDiskPart {
        &self.shared.parts[self.index]
    }

    /// Records that a flush of this device failed.
    fn flush_failed(&self, error: &DeviceError) {
        *self.shared.cause.borrow_mut() = error.to_string().into();
        for (index, part) in self.shared.parts.iter().enumerate() {
            if index == self.index {
                // The layer above this device receives the device's own error.
                part.lost.set(false);
                continue;
            }
            part.failures.set(part.failures.get() + 1);
            if part.issued.get() > part.durable.get() {
                part.lost.set(true);
            }
        }
    }

    /// Reports to the layer above, once, that writes may be lost.
    fn report_lost(&self) -> Result<()> {
        if self.own().lost.take() {
            Err(self.failed(DeviceOp::Flush))
        } else {
            Ok(())
        }
    }

    fn failed(&self, op: DeviceOp) -> DeviceError {
        let cause = self.shared.cause.borrow();
        let cause = format!("another device on the same disk failed to flush: {cause}");
        DeviceError::Failed {
            op,
            cause: cause.into(),
        }
    }

    async fn write_durably(&self, at: u64, buf: Buf) -> Result<()> {
        let failures = self.own().failures.get();
        let request = self.shared.durable.begin();
        let written = self.below.write(at, buf, Durability::Fua).await;
        if let Err(error) = &written {
            self.flush_failed(error);
            return written;
        }
        drop(request);
        self.shared.durable.end_of_others().await;
        if self.own().failures.get() == failures {
            return Ok(());
        }
        // The layer above also treats this error as a failed flush.
        self.own().lost.set(false);
        Err(self.failed(DeviceOp::Write))
    }

    async fn do_flush(&self) -> Result<()> {
        let _turn = self.shared.flushing.lock().await;
        self.report_lost()?;
        let covered = self.own().completed.get();
        let request = self.shared.durable.begin();
        let flushed = self.below.flush().await;
        if let Err(error) = &flushed {
            self.flush_failed(error);
            return flushed;
        }
        drop(request);
        self.shared.durable.end_of_others().await;
        self.report_lost()?;
        self.own().durable.set(covered);
        Ok(())
    }

    /// Runs a write that needs a flush to be durable, and counts it.
    fn unflushed<'a>(&'a self, write: IoFuture<'a, ()>) -> IoFuture<'a, ()> {
        let own = self.own();
        own.issued.set(own.issued.get() + 1);
        Box::pin(async move {
            let written = write.await;
            own.completed.set(own.completed.get() + 1);
            written
        })
    }
}

impl Device for OneDisk {
    fn geometry(&self) -> DeviceGeometry {
        self.below.geometry()
    }

    fn refresh_len(&self) -> Result<u64> {
        self.below.refresh_len()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.below.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        match durability {
            Durability::Flush => self.unflushed(self.below.write(at, buf, durability)),
            Durability::Fua => Box::pin(self.write_durably(at, buf)),
        }
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(self.do_flush())
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.below.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.unflushed(self.below.write_zeroes(range, room))
    }
}
