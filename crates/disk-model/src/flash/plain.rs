//! Plain flash as a device, without a translation layer: forbidden page operations are errors.

use std::io;
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture, Result,
    ZeroedSpace,
};
use forebay_rt::Rt;
use futures_util::future::join;

use super::chips::FlashChips;
use super::{BlockWear, ChipArrangement, Flash, FlashPart};
use crate::clockwork::Clockwork;

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;
/// Maximum length of a write of zeroes, in bytes.
const ZEROES: u64 = 1 << 20;

/// Reason why flash cannot be a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlainFlashError {
    /// The page size is not the block size of devices.
    #[error("a page of {0} bytes; only parts with pages of 4096 can be a device")]
    Page(u32),
    /// The number of planes is not a multiple of the planes in an erase unit.
    #[error("{lanes} planes cannot be ganged by {gang}, or make erase units of 4 GiB or more")]
    Gang {
        /// Planes in an erase unit.
        gang: u32,
        /// Planes of all dies.
        lanes: u32,
    },
    /// The device for the data is shorter than an erase unit.
    #[error("{have} bytes for the data; an erase unit has {need}")]
    TooShort {
        /// Length of that device, in bytes.
        have: u64,
        /// Bytes of an erase unit.
        need: u64,
    },
}

/// Work of the chips of a [`PlainFlash`] so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FlashUsage {
    /// Pages programmed. The ratio to the pages that clients wrote is the write amplification.
    pub programs: u64,
    /// Pages read.
    pub reads: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Erases of the least erased block of the device.
    pub erases_min: u32,
    /// Erases of the most erased block of the device.
    pub erases_max: u32,
}

/// Flash chips as a device.
///
/// - Its *erase units* have the length of [`DeviceGeometry::discard_granularity`]. A discard erases them. It affects only
///   whole
///   units, and erases only their programmed blocks.
/// - A write programs pages of 4096 bytes. A page can be programmed once until its unit is erased. The pages of a block
///   must
///   be programmed in order; some may be skipped. A write against these rules is refused as a whole. The source of its
///   error is a [`super::FlashError`] that names the page.
/// - A page that is not programmed reads as ones.
/// - A completed write is durable. A flush does nothing.
///
/// Another device stores the content. A request takes the time of the chips, or that of the other device if it is
/// longer.
pub struct PlainFlash {
    clockwork: Clockwork<FlashChips>,
    data: Rc<dyn Device>,
    geometry: DeviceGeometry,
}

impl PlainFlash {
    /// Creates new flash, completely erased, with one block of each of `gang` planes in an erase unit. The device is as
    /// long as `data`, in whole erase units. `data` must be empty.
    ///
    /// # Errors
    /// If part or gang do not make a device, or `data` is too short for a device.
    pub fn new(
        rt: &Rt,
        part: FlashPart,
        arrangement: ChipArrangement,
        gang: u32,
        data: Rc<dyn Device>,
    ) -> Result<PlainFlash, PlainFlashError> {
        if u64::from(part.page_bytes) != PAGE {
            return Err(PlainFlashError::Page(part.page_bytes));
        }
        let ChipArrangement {
            channels,
            dies_per_channel,
        } = arrangement;
        let lanes = channels * dies_per_channel * part.planes_per_die;
        let pages = gang.checked_mul(part.pages_per_block);
        let unit = pages.and_then(|pages| pages.checked_mul(PAGE as u32));
        let fits = gang > 0 && lanes.is_multiple_of(gang);
        let unit = unit.filter(|_| fits);
        let unit = unit.ok_or(PlainFlashError::Gang { gang, lanes })?;
        let (flash, have, need) = (
            Flash::new(part, arrangement),
            data.geometry().len,
            u64::from(unit),
        );
        if have < need {
            return Err(PlainFlashError::TooShort { have, need });
        }
        let len = have.min(flash.bytes());
        let geometry = DeviceGeometry {
            len: len - len % need,
            block_size: PAGE as u32,
            physical_block_size: PAGE as u32,
            preferred_io: gang * PAGE as u32,
            volatile: false,
            discard_granularity: unit,
            zeroes_by_unmapping: false,
        };
        Ok(PlainFlash {
            clockwork: Clockwork::new(rt, FlashChips::new(flash, gang)),
            data,
            geometry,
        })
    }

    /// Returns the work of the chips so far.
    pub fn usage(&self) -> FlashUsage {
        self.clockwork.look(|chips| {
            let wear = self.wear_of(chips);
            FlashUsage {
                programs: wear.iter().map(|wear| wear.programs).sum(),
                reads: wear.iter().map(|wear| wear.reads).sum(),
                erases: wear.iter().map(|wear| u64::from(wear.erases)).sum(),
                erases_min: wear.iter().map(|wear| wear.erases).min().unwrap_or(0),
                erases_max: wear.iter().map(|wear| wear.erases).max().unwrap_or(0),
            }
        })
    }

    /// Returns the wear of each block of the device, erase unit by erase unit.
    pub fn wear(&self) -> Vec<BlockWear> {
        self.clockwork.look(|chips| self.wear_of(chips))
    }

    fn wear_of(&self, chips: &FlashChips) -> Vec<BlockWear> {
        let units = self.geometry.len / u64::from(self.geometry.discard_granularity);
        chips.wear(0..units)
    }

    /// Programs pages with `data`, if the rules allow this.
    async fn program(&self, op: DeviceOp, at: u64, data: Buf) -> Result<()> {
        let range = at..at + data.len() as u64;
        let pages = range.start / PAGE..range.end / PAGE;
        let may = self
            .clockwork
            .look(|chips| chips.may_program(pages.clone()));
        may.map_err(|error| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, error);
            DeviceError::io(op, range, source)
        })?;
        let chips = self
            .clockwork
            .command(|chips, now, id| chips.program(now, id, pages));
        join(self.data.write(at, data, Durability::Fua), chips)
            .await
            .0
    }
}

impl Device for PlainFlash {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            let pages = at / PAGE..(at + buf.len() as u64) / PAGE;
            let erased = self.clockwork.look(|chips| {
                let erased = pages.clone().filter(|page| !chips.is_programmed(*page));
                erased.collect::<Vec<u64>>()
            });
            let chips = self
                .clockwork
                .command(|chips, now, id| chips.read(now, id, pages));
            let mut buf = join(self.data.read(at, buf), chips).await.0?;
            for page in erased {
                let from = (page * PAGE - at) as usize;
                buf[from..from + PAGE as usize].fill(0xff);
            }
            Ok(buf)
        })
    }

    fn write(&self, at: u64, buf: Buf, _durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(self.program(DeviceOp::Write, at, buf))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let unit = u64::from(self.geometry.discard_granularity);
            let units = range.start.div_ceil(unit)..range.end / unit;
            let blocks = if units.is_empty() {
                Vec::new()
            } else {
                self.clockwork.look(|chips| chips.to_erase(units.clone()))
            };
            if blocks.is_empty() {
                return Ok(());
            }
            let range = units.start * unit..units.end * unit;
            let chips = self
                .clockwork
                .command(|chips, now, id| chips.erase(now, id, units, &blocks));
            join(self.data.discard(range), chips).await.0
        })
    }

    /// Programs pages with zeroes, by the rules for writes.
    fn write_zeroes(&self, range: Range<u64>, _room: ZeroedSpace) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let mut at = range.start;
            while at < range.end {
                let len = (range.end - at).min(ZEROES);
                let zeroes = BufMut::zeroed(len as usize).freeze();
                self.program(DeviceOp::WriteZeroes, at, zeroes).await?;
                at += len;
            }
            Ok(())
        })
    }
}
