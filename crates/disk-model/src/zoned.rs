//! A host-managed shingled disk: zones that are written in order.
//!
//! A shingled disk (SMR) overlaps its tracks, so a track cannot be rewritten without the tracks behind it. A
//! *host-managed* drive leaves that to the host: its space is divided into zones, and a write outside a zone's order
//! fails. The rules are those of ZBC (INCITS 536, *Zoned Block Commands*) for SCSI and ZAC (INCITS 537) for ATA, as far
//! as a device of this project has commands for them:
//!
//! - The bytes before the first zone are *conventional*: they are written like any disk.
//! - All other zones are *sequential write required*. Each has a *write pointer*. A write must begin at the write
//!   pointer and must end within the zone. Then the write pointer moves to the end of the write. (ZBC: `UNALIGNED WRITE
//!   COMMAND`,
//!   `WRITE BOUNDARY VIOLATION`.)
//! - A full zone takes no write until it is reset (`INVALID FIELD IN CDB`).
//! - A discard of a whole zone is `RESET WRITE POINTER`: the zone is empty again. Discards of parts of a zone do
//!   nothing.
//! - Reads are unrestricted (`URSWRZ` is one): bytes behind the write pointer read as zeroes.
//!
//! Left out: zones that are opened, closed and finished by command, and limits on open zones. [`ZoneUsage`] has the
//! most zones that were partly written at one time, which can be compared with a drive's limit.
//!
//! [`ZonedDevice`] checks a write when it arrives. So several writes to one zone may be in flight if they arrive in order, as
//! from a queue that keeps the order of the writes of each zone.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture, Result,
    ZeroedSpace,
};

/// Reason why a device cannot be divided into zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ZonedDeviceError {
    /// The zones or the conventional part are not multiples of the device's physical block.
    #[error("zones of {zone} bytes behind {conventional} bytes are not whole blocks of {block}")]
    Blocks {
        /// Bytes of a zone.
        zone: u64,
        /// Bytes before the first zone.
        conventional: u64,
        /// Bytes of a physical block.
        block: u32,
    },
    /// A zone is longer than the maximum discard granularity.
    #[error("a zone of {0} bytes; zones have less than 4 GiB here")]
    Long(u64),
    /// The device is too short for the conventional part and one zone.
    #[error("the device has {have} bytes; {need} are needed")]
    TooShort {
        /// Length of the device, in bytes.
        have: u64,
        /// Minimum length, in bytes.
        need: u64,
    },
}

/// Reason why a zone refuses a write. The write had no effect. This error is the source of the device's error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ZoneError {
    /// The write does not begin at the write pointer of its zone.
    #[error("a write at byte {at}, but the write pointer of zone {zone} is at {pointer}")]
    NotAtPointer {
        /// Number of the zone, from the first behind the conventional part.
        zone: u64,
        /// First byte of the write, from the device's start.
        at: u64,
        /// Write pointer, in bytes from the device's start.
        pointer: u64,
    },
    /// The zone is full. It must be reset before it is written again.
    #[error("zone {0} is full; reset it first")]
    Full(u64),
    /// The write reaches beyond the end of its zone.
    #[error("a write of bytes {from}..{to} crosses the end of a zone at {boundary}")]
    Boundary {
        /// First byte of the write.
        from: u64,
        /// End of the write.
        to: u64,
        /// End of the zone in which the write begins.
        boundary: u64,
    },
}

/// Counts of a [`ZonedDevice`] device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ZoneUsage {
    /// Zones that were reset while they contained data.
    pub resets: u64,
    /// Writes that were refused.
    pub refused: u64,
    /// Bytes written to sequential zones.
    pub written: u64,
    /// Maximum number of zones that were partly written at one time: neither empty nor full.
    pub partly_written_max: u64,
}

/// A device whose space, behind a conventional part, is divided into zones that are written in order.
pub struct ZonedDevice {
    below: Rc<dyn Device>,
    geometry: DeviceGeometry,
    conventional: u64,
    zone: u64,
    state: RefCell<ZoneStates>,
}

struct ZoneStates {
    /// Of each zone, the bytes before its write pointer.
    written: Vec<u64>,
    partly_written: u64,
    usage: ZoneUsage,
}

impl ZoneStates {
    /// Moves the write pointer of a zone, of `len` bytes, to `written` bytes from the zone's start.
    fn set(&mut self, zone: u64, len: u64, written: u64) {
        let partly = |bytes: u64| u64::from(bytes > 0 && bytes < len);
        let before = std::mem::replace(&mut self.written[zone as usize], written);
        self.partly_written += partly(written);
        self.partly_written -= partly(before);
        let most = self.usage.partly_written_max.max(self.partly_written);
        self.usage.partly_written_max = most;
    }
}

impl ZonedDevice {
    /// Creates empty zones of `zone` bytes behind `conventional` bytes of `below`. A remainder of `below` that is
    /// shorter than a zone is unused.
    ///
    /// # Errors
    /// If `below` cannot be divided in this way.
    pub fn new(
        below: Rc<dyn Device>,
        conventional: u64,
        zone: u64,
    ) -> Result<ZonedDevice, ZonedDeviceError> {
        let whole = below.geometry();
        let block = whole.physical_block_size;
        let is_whole = |bytes: u64| bytes.is_multiple_of(block.into());
        if zone == 0 || !is_whole(zone) || !is_whole(conventional) {
            return Err(ZonedDeviceError::Blocks {
                zone,
                conventional,
                block,
            });
        }
        let granularity = u32::try_from(zone).map_err(|_| ZonedDeviceError::Long(zone))?;
        let (have, need) = (whole.len, conventional + zone);
        if have < need {
            return Err(ZonedDeviceError::TooShort { have, need });
        }
        let zones = (have - conventional) / zone;
        Ok(ZonedDevice {
            geometry: DeviceGeometry {
                len: conventional + zones * zone,
                discard_granularity: granularity,
                zeroes_by_unmapping: false,
                ..whole
            },
            below,
            conventional,
            zone,
            state: RefCell::new(ZoneStates {
                written: vec![0; zones as usize],
                partly_written: 0,
                usage: ZoneUsage::default(),
            }),
        })
    }

    /// Returns the counts so far.
    pub fn usage(&self) -> ZoneUsage {
        self.state.borrow().usage
    }

    /// Returns the write pointer of a zone, in bytes from the device's start; `None` if the zone does not exist.
    pub fn pointer(&self, zone: u64) -> Option<u64> {
        let state = self.state.borrow();
        let written = state.written.get(usize::try_from(zone).ok()?)?;
        Some(self.start(zone) + written)
    }

    fn start(&self, zone: u64) -> u64 {
        self.conventional + zone * self.zone
    }

    /// Returns the zone in which a byte lies; `None` for a byte of the conventional part.
    fn zone_of(&self, at: u64) -> Option<u64> {
        Some(at.checked_sub(self.conventional)? / self.zone)
    }

    /// Moves the write pointer over an arriving write, or returns the reason why the write is refused.
    fn admit(&self, range: &Range<u64>) -> Result<(), ZoneError> {
        let Some(zone) = self.zone_of(range.start) else {
            let (from, to) = (range.start, range.end);
            let boundary = self.conventional;
            return if to > boundary {
                Err(ZoneError::Boundary { from, to, boundary })
            } else {
                Ok(())
            };
        };
        let start = self.start(zone);
        let mut state = self.state.borrow_mut();
        let written = state.written[zone as usize];
        if written == self.zone {
            return Err(ZoneError::Full(zone));
        }
        let (at, pointer) = (range.start, start + written);
        if at != pointer {
            return Err(ZoneError::NotAtPointer { zone, at, pointer });
        }
        let boundary = start + self.zone;
        if range.end > boundary {
            let (from, to) = (range.start, range.end);
            return Err(ZoneError::Boundary { from, to, boundary });
        }
        state.set(zone, self.zone, range.end - start);
        state.usage.written += range.end - range.start;
        Ok(())
    }

    /// Admits a write, executes it with `write`, and moves the write pointer back if the device below fails.
    async fn in_order(
        &self,
        op: DeviceOp,
        range: Range<u64>,
        write: impl AsyncFnOnce(&dyn Device) -> Result<()>,
    ) -> Result<()> {
        if let Err(error) = self.admit(&range) {
            self.state.borrow_mut().usage.refused += 1;
            let source = io::Error::new(io::ErrorKind::InvalidInput, error);
            return Err(DeviceError::io(op, range, source));
        }
        let done = write(&*self.below).await;
        if let (true, Some(zone)) = (done.is_err(), self.zone_of(range.start)) {
            let mut state = self.state.borrow_mut();
            let written = state.written[zone as usize].min(range.start - self.start(zone));
            state.set(zone, self.zone, written);
        }
        done
    }

    /// Moves the write pointer of a zone to the zone's start. Returns false if it was there.
    fn reset(&self, zone: u64) -> bool {
        let mut state = self.state.borrow_mut();
        let has_data = state.written[zone as usize] > 0;
        if has_data {
            state.set(zone, self.zone, 0);
            state.usage.resets += 1;
        }
        has_data
    }

    /// Returns the parts of a range that lie behind the write pointers, in bytes from the device's start.
    fn unwritten(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut at = range.start.max(self.conventional);
        let mut parts = Vec::new();
        while let Some(zone) = self.zone_of(at).filter(|_| at < range.end) {
            let end = range.end.min(self.start(zone) + self.zone);
            let from = self.pointer(zone).map_or(at, |pointer| pointer.max(at));
            if from < end {
                parts.push(from..end);
            }
            at = end;
        }
        parts
    }
}

impl Device for ZonedDevice {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            let unwritten = self.unwritten(&(at..at + buf.len() as u64));
            let mut buf = self.below.read(at, buf).await?;
            for part in unwritten {
                buf[(part.start - at) as usize..(part.end - at) as usize].fill(0);
            }
            Ok(buf)
        })
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        let range = at..at + buf.len() as u64;
        let write = async move |below: &dyn Device| below.write(at, buf, durability).await;
        Box::pin(self.in_order(DeviceOp::Write, range, write))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.below.flush()
    }

    /// Resets the zones that lie completely in the range. No write to them may be in flight. Discards nothing of the
    /// conventional part, and of zones that lie only partly in the range.
    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let from = range.start.max(self.conventional) - self.conventional;
            let to = range.end.max(self.conventional) - self.conventional;
            for zone in from.div_ceil(self.zone)..to / self.zone {
                if !self.reset(zone) {
                    continue;
                }
                let start = self.start(zone);
                self.below.discard(start..start + self.zone).await?;
            }
            Ok(())
        })
    }

    /// Writes zeroes, by the rules for writes.
    fn write_zeroes(&self, range: Range<u64>, _room: ZeroedSpace) -> IoFuture<'_, ()> {
        let zeroes = range.clone();
        let write =
            async move |below: &dyn Device| below.write_zeroes(zeroes, ZeroedSpace::Keep).await;
        Box::pin(self.in_order(DeviceOp::WriteZeroes, range, write))
    }
}
