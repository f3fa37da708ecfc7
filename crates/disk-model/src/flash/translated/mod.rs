//! An ordinary solid-state drive: flash chips behind a translation layer.
//!
//! The drive maps pages. A *mapping unit* of its address space is as long as a page of its chips, and can lie in any
//! page. A unit that is written again goes to another page, and its old page is garbage until that page's erase block
//! is collected. Chips with large pages (QLC) have large mapping units, as in drives that save memory for the map. A
//! write of a part of a unit then costs a whole page, and a read of the old page.
//!
//! - [`TranslationOptions::reclaim_lanes`] planes form a *reclaim unit*, an erase block of each. It is filled from its
//!   first
//!   page to its last, and erased as a whole.
//! - *Collection* takes the full reclaim unit with the fewest live pages (greedy), moves these pages and erases the
//!   unit. It
//!   begins when a write needs a reclaim unit and at most [`map::FREE_MIN`] are free.
//! - The chips have more space than the drive shows: the *reserve*.
//! - A discard of whole mapping units unmaps them.
//! - A *write buffer* gathers parts of a unit. The drive acknowledges a write when all of it is in the buffer. The
//!   buffer
//!   survives a power cut, so completed writes are not volatile.
//! - *Placement handles*, if the drive has several: writes of one handle share reclaim units, writes of different
//!   handles do
//!   not ([`Device::place`]). This is NVMe Flexible Data Placement (TP4146) with this number of reclaim unit handles,
//!   of the type that is initially isolated: collection mixes moved data.
//!
//! The write amplification is [`TranslationUsage::programmed`] divided by [`TranslationUsage::host`].
//!
//! Time is that of the chips: each page read or programmed, and each block erased, occupies its plane and channel. Not
//! modelled: the time of the map and of its own writes, and the order of a move. The read and the program of a moved
//! page are queued at the same time.

mod buffer;
mod drive;
mod map;
#[cfg(test)]
mod map_tests;

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, PlacementHandle, Result, ZeroedSpace,
};
use forebay_rt::Rt;
use futures_util::future::join;

use super::chips::FlashChips;
use super::{ChipArrangement, Flash, FlashPart};
use crate::clockwork::Clockwork;
use drive::TranslatedDrive;
use map::{FlashMap, MapShape};

/// Bytes of a block of the drive.
const BLOCK: u64 = 4096;
/// Blocks of the longest mapping unit: a buffered unit has a bit for each.
const UNIT_BLOCKS_MAX: u64 = 64;

/// Choices of a translation layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TranslationOptions {
    /// Space of the chips in addition to the drive's capacity, in thousandths of the capacity.
    pub reserve_thousandths: u32,
    /// Planes in a reclaim unit.
    pub reclaim_lanes: u32,
    /// Mapping units that the write buffer holds, including those being programmed.
    pub buffer_units: u32,
    /// Placement handles; 1 for a drive without placement.
    pub handles: u16,
}

/// Reason why chips and options do not make a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TranslatedFlashError {
    /// A page is not a multiple of a block, or too long.
    #[error("a page of {0} bytes cannot be a mapping unit: it must have 1 to 64 blocks of 4096")]
    Page(u32),
    /// The number of planes is not a multiple of the planes in a reclaim unit.
    #[error("{lanes} planes cannot be cut into reclaim units of {of}")]
    Lanes {
        /// Planes in a reclaim unit.
        of: u32,
        /// Planes of all dies.
        lanes: u32,
    },
    /// The write buffer is too small, or the drive has no handle.
    #[error("a drive needs two units in its write buffer and one placement handle")]
    Nothing,
    /// The chips are too small for the data and the reserve.
    #[error("the chips have {have} reclaim units; data and reserve need {need}")]
    TooSmall {
        /// Reclaim units of the chips.
        have: u64,
        /// Reclaim units that are needed.
        need: u64,
    },
    /// The reserve does not hold the reclaim units that are open or kept free.
    #[error("the reserve has {have} reclaim units; handles and collection need {need}")]
    Reserve {
        /// Reclaim units of the reserve.
        have: u64,
        /// Reclaim units that are needed.
        need: u64,
    },
}

/// Counts of a [`TranslatedFlash`] so far, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TranslationUsage {
    /// Written by the host.
    pub host: u64,
    /// Programmed in all, as the chips count it.
    pub programmed: u64,
    /// Moved by collection, as a part of `programmed`.
    pub moved: u64,
    /// Read to complete mapping units of which the host wrote a part.
    pub completed: u64,
    /// Erased.
    pub erased: u64,
}

/// A solid-state drive. Its content is held by another device, at the same addresses.
pub struct TranslatedFlash {
    clockwork: Clockwork<TranslatedDrive>,
    data: Rc<dyn Device>,
    geometry: DeviceGeometry,
}

impl TranslatedFlash {
    /// Creates a new drive as long as `data`, in whole mapping units. `data` must be empty.
    ///
    /// # Errors
    /// If chips and options do not make a drive of this length.
    pub fn new(
        rt: &Rt,
        part: FlashPart,
        arrangement: ChipArrangement,
        options: TranslationOptions,
        data: Rc<dyn Device>,
    ) -> Result<TranslatedFlash, TranslatedFlashError> {
        let page = u64::from(part.page_bytes);
        if !page.is_multiple_of(BLOCK) || !(1..=UNIT_BLOCKS_MAX).contains(&(page / BLOCK)) {
            return Err(TranslatedFlashError::Page(part.page_bytes));
        }
        let lanes = arrangement.channels * arrangement.dies_per_channel * part.planes_per_die;
        let of = options.reclaim_lanes;
        if of == 0 || !lanes.is_multiple_of(of) {
            return Err(TranslatedFlashError::Lanes { of, lanes });
        }
        if options.buffer_units < 2 || options.handles == 0 {
            return Err(TranslatedFlashError::Nothing);
        }
        let unit_pages = of * part.pages_per_block;
        let units = data.geometry().len / page;
        let all = units * u64::from(1000 + options.reserve_thousandths) / 1000;
        let need = all.div_ceil(unit_pages.into());
        let have = u64::from(lanes / of) * u64::from(part.blocks_per_plane);
        if have < need {
            return Err(TranslatedFlashError::TooSmall { have, need });
        }
        let shape = MapShape {
            units,
            reclaim_units: need,
            pages: unit_pages.into(),
            handles: options.handles,
        };
        let (have, need) = (shape.reserve(), shape.reserve_min());
        if have < need {
            return Err(TranslatedFlashError::Reserve { have, need });
        }
        let geometry = DeviceGeometry {
            len: units * page,
            block_size: BLOCK as u32,
            physical_block_size: BLOCK as u32,
            preferred_io: part.page_bytes,
            volatile: false,
            discard_granularity: part.page_bytes,
            zeroes_by_unmapping: false,
        };
        let chips = FlashChips::new(Flash::new(part, arrangement), of);
        let drive = TranslatedDrive::new(chips, FlashMap::new(shape), page, options.buffer_units);
        Ok(TranslatedFlash {
            clockwork: Clockwork::new(rt, drive),
            data,
            geometry,
        })
    }

    /// Returns the counts so far.
    pub fn usage(&self) -> TranslationUsage {
        self.clockwork.look(TranslatedDrive::usage)
    }

    /// Returns the space of the chips that the drive uses, including the reserve, in bytes.
    pub fn chip_bytes(&self) -> u64 {
        self.clockwork.look(TranslatedDrive::bytes)
    }

    /// Returns the whole mapping units within a range.
    fn units_within(&self, range: &Range<u64>) -> Range<u64> {
        let unit = u64::from(self.geometry.discard_granularity);
        range.start.div_ceil(unit)..range.end / unit
    }
}

impl Device for TranslatedFlash {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry
    }

    /// Sets the handle of all mapping units within the range. A handle that the drive does not have is replaced by the
    /// last one.
    fn place(&self, range: Range<u64>, handle: PlacementHandle) {
        let units = self.units_within(&range);
        self.clockwork
            .change(|drive| drive.map.place(units, handle.0));
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        let range = at..at + buf.len() as u64;
        let chips = self
            .clockwork
            .command(move |drive, now, id| drive.read(now, id, range));
        Box::pin(async move { join(self.data.read(at, buf), chips).await.0 })
    }

    fn write(&self, at: u64, buf: Buf, _durability: Durability) -> IoFuture<'_, ()> {
        let range = at..at + buf.len() as u64;
        let chips = self
            .clockwork
            .command(move |drive, now, id| drive.write(now, id, range));
        let data = self.data.write(at, buf, Durability::Fua);
        Box::pin(async move { join(data, chips).await.0 })
    }

    /// Does nothing: the write buffer survives a power cut.
    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Unmaps the mapping units that lie completely in the range. Takes no time.
    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        let units = self.units_within(&range);
        self.clockwork.change(|drive| drive.discard(units.clone()));
        let unit = u64::from(self.geometry.discard_granularity);
        if units.is_empty() {
            Box::pin(std::future::ready(Ok(())))
        } else {
            self.data.discard(units.start * unit..units.end * unit)
        }
    }

    /// Writes zeroes as data.
    fn write_zeroes(&self, range: Range<u64>, _room: ZeroedSpace) -> IoFuture<'_, ()> {
        let zeroed = range.clone();
        let chips = self
            .clockwork
            .command(move |drive, now, id| drive.write(now, id, zeroed));
        let data = self.data.write_zeroes(range, ZeroedSpace::Keep);
        Box::pin(async move { join(data, chips).await.0 })
    }
}
