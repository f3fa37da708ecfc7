//! The device that requests are for.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Buf, BufMut, Checked, Device, Durability, Geometry, IoFuture, Result, Room};

/// A device as front ends use it: with checks, and with forced unit access for all requests for which protocols allow
/// it (a `Device` has FUA for writes only).
pub(crate) struct Target {
    device: Checked<Rc<dyn Device>>,
}

/// A request that carries no data in either direction and is answered by success or an error. With `fua`, its effect is
/// durable when it is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// See [`Device::flush`].
    Flush,
    /// See [`Device::discard`].
    Discard { range: Range<u64>, fua: bool },
    /// See [`Device::write_zeroes`].
    Zero {
        range: Range<u64>,
        room: Room,
        fua: bool,
    },
}

impl Target {
    /// Wraps `device`. Traces call this layer `front`.
    ///
    /// # Panics
    /// If the device's geometry breaks the contract.
    pub(crate) fn new(device: Rc<dyn Device>, front: &'static str) -> Target {
        Target {
            device: Checked::new(device, front),
        }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    /// See [`Device::read`].
    pub(crate) fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.device.read(at, buf)
    }

    /// Writes `data`; with `fua`, the data is durable on return.
    pub(crate) fn write(&self, at: u64, data: Buf, fua: bool) -> IoFuture<'_, ()> {
        let durability = if fua {
            Durability::Fua
        } else {
            Durability::Flush
        };
        self.device.write(at, data, durability)
    }

    pub(crate) async fn change(&self, change: Change) -> Result<()> {
        match change {
            Change::Flush => self.device.flush().await,
            Change::Discard { range, fua } => {
                self.device.discard(range).await?;
                self.durably(fua).await
            }
            Change::Zero { range, room, fua } => {
                self.device.write_zeroes(range, room).await?;
                self.durably(fua).await
            }
        }
    }

    /// Flushes if `fua` is set: `discard` and `write_zeroes` of a device have no FUA, so a subsequent flush replaces
    /// it.
    async fn durably(&self, fua: bool) -> Result<()> {
        if fua {
            self.device.flush().await
        } else {
            Ok(())
        }
    }
}
