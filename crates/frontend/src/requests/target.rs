//! The device that requests are for.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, CheckedDevice, Device, DeviceGeometry, Durability, IoFuture, Result, ZeroedSpace,
};

/// A device as front ends use it: with checks, and with forced unit access for all requests for which protocols allow
/// it (a `Device` has FUA for writes only).
pub struct FrontDevice {
    device: CheckedDevice<Rc<dyn Device>>,
}

/// A request that carries no data in either direction and is answered by success or an error. With `fua`, its effect is
/// durable when it is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeRequest {
    /// See [`Device::flush`].
    Flush,
    /// See [`Device::discard`].
    Discard {
        /// The released bytes.
        range: Range<u64>,
        /// True if the effect must be durable.
        fua: bool,
    },
    /// See [`Device::write_zeroes`].
    Zero {
        /// The zeroed bytes.
        range: Range<u64>,
        /// Handling of the allocated space.
        room: ZeroedSpace,
        /// True if the effect must be durable.
        fua: bool,
    },
}

impl FrontDevice {
    /// Wraps `device`. Traces call this layer `front`.
    ///
    /// # Panics
    /// If the device's geometry breaks the contract.
    pub fn new(device: Rc<dyn Device>, front: &'static str) -> FrontDevice {
        FrontDevice {
            device: CheckedDevice::new(device, front),
        }
    }

    /// See [`Device::geometry`].
    pub fn geometry(&self) -> DeviceGeometry {
        self.device.geometry()
    }

    /// See [`Device::read`].
    pub fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.device.read(at, buf)
    }

    /// Writes `data`; with `fua`, the data is durable on return.
    pub fn write(&self, at: u64, data: Buf, fua: bool) -> IoFuture<'_, ()> {
        let durability = if fua {
            Durability::Fua
        } else {
            Durability::Flush
        };
        self.device.write(at, data, durability)
    }

    /// Performs a request without data.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn change(&self, change: ChangeRequest) -> Result<()> {
        match change {
            ChangeRequest::Flush => self.device.flush().await,
            ChangeRequest::Discard { range, fua } => {
                self.device.discard(range).await?;
                self.durably(fua).await
            }
            ChangeRequest::Zero { range, room, fua } => {
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
