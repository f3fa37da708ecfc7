//! Flash below a system: chips alone, or a solid-state drive.

use std::rc::Rc;

use anyhow::{Context, Result};
use forebay_device::{Device, StampStore};
use forebay_disk_model::flash::{
    ChipArrangement, FlashPart, FrontedFlash, PlainFlash, TranslatedFlash, TranslationOptions,
    named,
};
use forebay_placement::cost;
use forebay_rt::Rt;

use crate::made::{CountedDevice, MediumDevice};

/// Bytes of a drive's reclaim unit: the length of a few segments. Drives of a TB have reclaim units of some GB.
pub(crate) const RECLAIM_BYTES: u64 = 2 << 20;
/// Reserve of the chips, in thousandths of the drive's visible capacity.
pub(crate) const RESERVE_THOUSANDTHS: u32 = 70;
/// Number of placement handles of a drive with handles. SepBIT has seven streams.
const HANDLES: u16 = 8;
/// Bytes of a drive's write buffer.
const BUFFER_BYTES: u32 = 2 << 20;
/// Channels of all flash devices of the study, with one die each.
const CHANNELS: u32 = 4;
/// Erase units that chips without a translation layer reserve for rewritten superblocks.
const FRONT_UNITS: u64 = 3;

/// Chips of a flash device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlashPages {
    /// SLC with pages of 4 KiB.
    Of4KiB,
    /// QLC with pages of 16 KiB.
    Of16KiB,
}

/// A flash device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlashMedium {
    /// Chips of 4 KiB pages without a translation layer. A segment is an erase unit.
    Chips,
    /// A solid-state drive.
    Drive {
        /// Its chips. A mapping unit is a page.
        pages: FlashPages,
        /// True if the drive has placement handles.
        handles: bool,
    },
}

impl FlashPages {
    /// Returns the part. Its blocks are shortened so that a reclaim unit over all planes has [`RECLAIM_BYTES`].
    fn part(self) -> Result<FlashPart> {
        let name = match self {
            FlashPages::Of4KiB => "mt29f16g08abaca",
            FlashPages::Of16KiB => "qlc-16k",
        };
        let part = named(name).with_context(|| format!("no part {name}"))?;
        let pages = RECLAIM_BYTES / u64::from(CHANNELS * part.planes_per_die * part.page_bytes);
        let shorter = part.pages_per_block / pages as u32;
        Ok(FlashPart {
            pages_per_block: pages as u32,
            blocks_per_plane: part.blocks_per_plane * shorter.max(1),
            ..part
        })
    }
}

const ARRANGEMENT: ChipArrangement = ChipArrangement {
    channels: CHANNELS,
    dies_per_channel: 1,
};

impl FlashMedium {
    /// Returns the pages of the chips.
    fn pages(self) -> FlashPages {
        match self {
            FlashMedium::Chips => FlashPages::Of4KiB,
            FlashMedium::Drive { pages, .. } => pages,
        }
    }

    /// Returns the costs of writing, in the terms of the cost model: a page needs the program time of a plane, and long
    /// writes use all planes.
    ///
    /// # Errors
    /// If the part does not exist.
    pub(crate) fn writing(self) -> Result<cost::DiskParameters> {
        let part = self.pages().part()?;
        let planes = f64::from(CHANNELS * part.planes_per_die);
        let program = part.program.as_secs_f64();
        Ok(cost::DiskParameters {
            positioning: program,
            bandwidth: planes * f64::from(part.page_bytes) / program,
            arms: 1.0,
        })
    }

    /// Makes the device, with space for `segments` segments of `segment` bytes after the first `before` bytes.
    ///
    /// # Errors
    /// If the part is unknown, or the device cannot be made.
    pub(crate) async fn make(
        self,
        rt: &Rt,
        before: u64,
        segment: u64,
        segments: u64,
    ) -> Result<MediumDevice> {
        match self {
            FlashMedium::Chips => chips(rt, segment, segments).await,
            FlashMedium::Drive { pages, handles } => {
                let part = pages.part()?;
                let options = TranslationOptions {
                    reserve_thousandths: RESERVE_THOUSANDTHS,
                    reclaim_lanes: CHANNELS * part.planes_per_die,
                    buffer_units: BUFFER_BYTES / part.page_bytes,
                    handles: if handles { HANDLES } else { 1 },
                };
                let data = Rc::new(StampStore::new(before + segments * segment, 4096));
                let drive = TranslatedFlash::new(rt, part, ARRANGEMENT, options, data)?;
                let drive = Rc::new(drive);
                Ok(MediumDevice {
                    device: Rc::clone(&drive) as Rc<dyn Device>,
                    counted: CountedDevice::Drive(drive),
                })
            }
        }
    }
}

/// Makes chips without a translation layer, with an erase unit for each segment. Their reserve is as large as a
/// drive's, but the log uses it.
async fn chips(rt: &Rt, segment: u64, segments: u64) -> Result<MediumDevice> {
    let part = FlashPages::Of4KiB.part()?;
    let block = part.pages_per_block * part.page_bytes;
    let gang = (segment / u64::from(block)).max(1) as u32;
    let data = Rc::new(StampStore::new((FRONT_UNITS + segments) * segment, 4096));
    let chips = PlainFlash::new(rt, part, ARRANGEMENT, gang, data)?;
    let chips = Rc::new(chips);
    let fronted = FrontedFlash::open(Rc::clone(&chips) as Rc<dyn Device>, segment).await?;
    Ok(MediumDevice {
        device: Rc::new(fronted),
        counted: CountedDevice::Chips(chips),
    })
}
