//! A space as a device: the sectors from 0 up to its length.

use std::ops::Range;
use std::sync::Arc;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture, ZeroedSpace,
};
use forebay_units::{SECTOR_BYTES, Sector};

use crate::batch::{BATCH_BYTES_MAX, Batch};
use crate::error::SpaceError;
use crate::space::Space;

/// A space as a device. The device grows with the space. Discards and zeroes that free their space are trims.
#[derive(Clone)]
pub struct SpaceDevice {
    space: Space,
    geometry: DeviceGeometry,
}

impl SpaceDevice {
    /// Creates a device of all sectors of a space that can be addressed in bytes.
    pub fn new(space: Space) -> SpaceDevice {
        let below = space.inner.device.geometry();
        let geometry = DeviceGeometry {
            len: space.sectors() * SECTOR_BYTES,
            block_size: SECTOR_BYTES as u32,
            physical_block_size: forebay_units::LINE_BYTES as u32,
            preferred_io: below.preferred_io,
            volatile: true,
            discard_granularity: SECTOR_BYTES as u32,
            zeroes_by_unmapping: true,
        };
        SpaceDevice { space, geometry }
    }

    /// Returns the space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Applies a write in one batch, so that a crash leaves all of it or nothing. A write that is too large for one
    /// batch is applied in parts: a block device guarantees only whole blocks.
    async fn write_whole(
        &self,
        sector: u64,
        data: &Buf,
        durability: Durability,
    ) -> Result<(), SpaceError> {
        if data.len() as u64 <= BATCH_BYTES_MAX {
            let batch = Batch::of_write(Sector(sector), data.clone());
            match self.space.apply(&batch, durability).await {
                Err(SpaceError::Large { .. }) if data.len() as u64 > self.space.write_max() => {}
                done => return done.map(drop),
            }
        }
        self.write_parts(sector, data, durability).await
    }

    /// Writes in parts. Each part is applied atomically.
    async fn write_parts(
        &self,
        sector: u64,
        data: &Buf,
        durability: Durability,
    ) -> Result<(), SpaceError> {
        let most = self.space.write_max() as usize;
        let mut done = 0;
        while done < data.len() {
            let end = data.len().min(done + most);
            let at = Sector(sector + done as u64 / SECTOR_BYTES);
            let batch = Batch::of_write(at, data.slice(done..end));
            // The durability of the last part also covers the other parts.
            let durability = if end == data.len() {
                durability
            } else {
                Durability::Flush
            };
            self.space.apply(&batch, durability).await?;
            done = end;
        }
        Ok(())
    }

    async fn trim(&self, range: Range<u64>, op: DeviceOp) -> Result<(), DeviceError> {
        let (sector, sectors) = (Sector(range.start / SECTOR_BYTES), range.end - range.start);
        let mut batch = Batch::new();
        batch.trim(sector, sectors / SECTOR_BYTES);
        let done = self.space.apply(&batch, Durability::Flush).await;
        done.map(drop)
            .map_err(|error| as_device_error(error, op, range))
    }
}

/// Converts an error for callers that know devices.
fn as_device_error(error: SpaceError, op: DeviceOp, range: Range<u64>) -> DeviceError {
    const ENOSPC: i32 = 28;
    match error {
        SpaceError::Device(error) => error,
        SpaceError::Damaged { sector, sectors } => DeviceError::Damaged {
            range: sector.0 * SECTOR_BYTES..(sector.0 + sectors) * SECTOR_BYTES,
            detail: "they do not match their checksum",
        },
        SpaceError::Node(..) => DeviceError::Damaged {
            range,
            detail: "the node of the map that locates them is damaged",
        },
        SpaceError::Full { .. } | SpaceError::Large { .. } => {
            DeviceError::io(op, range, std::io::Error::from_raw_os_error(ENOSPC))
        }
        SpaceError::Headers(_) => DeviceError::Damaged {
            range,
            detail: "headers of a segment are damaged",
        },
        SpaceError::Failing { .. } => DeviceError::Failed {
            op,
            cause: Arc::from(error.to_string()),
        },
        SpaceError::Failed(error) => DeviceError::Failed {
            op,
            cause: Arc::from(error.to_string()),
        },
        SpaceError::Batch(error) => DeviceError::Failed {
            op,
            cause: Arc::from(error.to_string()),
        },
    }
}

impl Device for SpaceDevice {
    fn geometry(&self) -> DeviceGeometry {
        // A space can grow.
        DeviceGeometry {
            len: self.space.sectors() * SECTOR_BYTES,
            ..self.geometry
        }
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            let range = at..at + buf.len() as u64;
            let read = self.space.read(Sector(at / SECTOR_BYTES), buf).await;
            read.map_err(|error| as_device_error(error, DeviceOp::Read, range))
        })
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let range = at..at + buf.len() as u64;
            let written = self.write_whole(at / SECTOR_BYTES, &buf, durability).await;
            written.map_err(|error| as_device_error(error, DeviceOp::Write, range))
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let done = self.space.flush().await;
            done.map_err(|error| as_device_error(error, DeviceOp::Flush, 0..0))
        })
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(self.trim(range, DeviceOp::Discard))
    }

    /// Ranges are not preallocated, so `room` makes no difference.
    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        let _ = room;
        Box::pin(self.trim(range, DeviceOp::WriteZeroes))
    }
}
