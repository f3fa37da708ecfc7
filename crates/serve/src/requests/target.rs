//! The device that requests are for.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Buf, BufMut, Checked, Device, Durability, Geometry, IoFuture, Result, Room};

/// A device as front ends ask it: checked, and with the forced unit access that protocols allow for
/// more requests than devices do.
pub(crate) struct Target {
    device: Checked<Rc<dyn Device>>,
}

/// What brings and takes no data, and is answered by success alone. With `fua` it is durable when it
/// is answered.
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
    /// `front` is what traces call it.
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

    /// Writes; durably, with `fua`.
    pub(crate) fn write(&self, at: u64, data: Buf, fua: bool) -> IoFuture<'_, ()> {
        let durability = match fua {
            true => Durability::Fua,
            false => Durability::Flush,
        };
        self.device.write(at, data, durability)
    }

    /// Carries `change` out.
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

    /// `discard` and `write_zeroes` of a device know no FUA, so a flush behind them stands for it.
    async fn durably(&self, fua: bool) -> Result<()> {
        match fua {
            true => self.device.flush().await,
            false => Ok(()),
        }
    }
}
