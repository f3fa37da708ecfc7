//! Making a log-structured volume.

use std::rc::Rc;

use forebay_device::{Device, Geometry, Overlay};
use forebay_placement::placement::{Kind, Known, Medium, choose_by_all};
use forebay_rt::Rt;
use forebay_units::{ByteLen, SECTOR_BYTES, round_down};
use forebay_vsl::{
    Capacity, GeometryError, Layout, Making, OpenError, Options, SPARE_PART, Space, VolumeId,
    create, open,
};

use super::measure::{Measured, measure};
use super::{Placing, SpareShare};

/// A volume without a length of its own has this share of what can be mapped in pieces of one sector, in 64ths: so all of it
/// can be written, in pieces of any size and in any order.
const MAPPABLE_64THS: u64 = 63;
/// A volume's length is a multiple of so many bytes.
const LEN_UNIT: u64 = 1 << 20;
/// The page where none is asked for.
const PAGE: ByteLen = ByteLen::kib(8);

/// A log-structured volume to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewSpace {
    /// Its length as users see it; all that can be mapped, if none.
    pub(crate) size: Option<ByteLen>,
    /// Bytes in a segment.
    pub(crate) segment: Option<ByteLen>,
    /// How data is placed.
    pub(crate) placement: Placing,
    /// Bytes of a page, for placements that go by pages.
    pub(crate) page: Option<ByteLen>,
    /// The share that is kept free.
    pub(crate) spare: Option<SpareShare>,
}

/// How long a space is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Long {
    /// As a volume that is served as a block device: of the size that is wanted, or what there is room for.
    Wanted,
    /// So many sectors, whatever there is room for.
    Sectors(u64),
}

/// What was made.
#[derive(Clone, Debug)]
pub(crate) struct MadeSpace {
    /// Its length, in bytes.
    pub(crate) len: u64,
    /// The bytes that an empty volume can map in pieces of one sector.
    pub(crate) mappable: u64,
    /// The bytes that an empty volume can map in blocks of 4 KiB.
    pub(crate) mappable_in_blocks: u64,
    /// From this length on, cleaning a full volume costs much, in bytes.
    pub(crate) usual: u64,
    /// Its segments.
    pub(crate) layout: Layout,
    /// How data is placed, and why.
    pub(crate) placement: String,
}

impl MadeSpace {
    /// A warning if cleaning the volume costs much once it is full; empty otherwise.
    pub(crate) fn warning(&self) -> String {
        match self.len > self.usual {
            true => format!(
                "; once more than {} of it holds data, the volume writes much more than its clients do, to clean segments",
                ByteLen(self.usual)
            ),
            false => String::new(),
        }
    }
}

/// The segments of a volume on a device.
///
/// # Errors
/// If there can be none.
pub(crate) fn layout_on(device: &Geometry, new: &NewSpace) -> Result<Layout, GeometryError> {
    Layout::for_device(device, new.segment)
}

/// Makes an empty volume.
///
/// # Errors
/// If the device fails, or is too small.
pub(crate) async fn make(
    rt: &Rt,
    device: &Rc<dyn Device>,
    layout: Layout,
    id: [u8; 16],
    (new, long): (&NewSpace, Long),
) -> Result<MadeSpace, OpenError> {
    let page = new.page.unwrap_or(PAGE);
    let measured = measure(rt, &**device, (page.0, layout.segment_bytes.into())).await?;
    let (kind, why) = match (new.placement, long) {
        (Placing::Auto, Long::Sectors(_)) => for_files(&measured, page, &layout),
        (asked, _) => placement((asked, new.size), &measured, page, &layout),
    };
    let mut making = Making {
        volume: VolumeId(id),
        layout,
        space_sectors: match long {
            Long::Wanted => layout.len / SECTOR_BYTES,
            Long::Sectors(sectors) => sectors,
        },
        placement: kind,
        // What is best for a filesystem does not follow from costs alone: see `for_files`.
        auto: new.placement == Placing::Auto && long == Long::Wanted,
        page_sectors: (page.0 / SECTOR_BYTES) as u32,
        disk: Some(measured.disk()),
    };
    let comfort = capacity(rt, device, &making, comfortable()).await?;
    let usual = usual_len(comfort.mappable);
    let spare_part = new.spare.map(SpareShare::part);
    let options = Options {
        spare_part,
        ..Options::default()
    };
    let most = match long {
        Long::Wanted => capacity(rt, device, &making, options).await?,
        Long::Sectors(_) => comfort,
    };
    let len = match (new.size, spare_part) {
        (Some(size), _) => round_down(size.0, LEN_UNIT),
        (None, Some(_)) => usual_len(most.mappable),
        (None, None) => usual,
    };
    if long == Long::Wanted {
        making.space_sectors = len / SECTOR_BYTES;
    }
    create(rt.clone(), Rc::clone(device), &making).await?;
    Ok(MadeSpace {
        len,
        mappable: most.mappable,
        mappable_in_blocks: most.mappable_in_blocks,
        usual,
        layout,
        placement: why,
    })
}

/// The length of a volume without a length of its own, of which so much can be mapped while nothing is, in bytes.
fn usual_len(mappable: u64) -> u64 {
    round_down(mappable / 64 * MAPPABLE_64THS, LEN_UNIT)
}

/// The length that a volume without a length of its own would have on these segments of its device, in bytes. The device
/// is not changed.
///
/// # Errors
/// The device's.
pub(crate) async fn usual_len_on(rt: &Rt, space: &Space, layout: Layout) -> Result<u64, OpenError> {
    let making = {
        let superblock = space.superblock();
        Making {
            volume: superblock.volume,
            layout,
            space_sectors: layout.len / SECTOR_BYTES,
            placement: superblock.placement,
            auto: false,
            page_sectors: superblock.page_sectors,
            disk: None,
        }
    };
    let empty = capacity(rt, space.device(), &making, comfortable()).await?;
    Ok(usual_len(empty.mappable))
}

fn placement(
    (asked, size): (Placing, Option<ByteLen>),
    measured: &Measured,
    page: ByteLen,
    layout: &Layout,
) -> (Kind, String) {
    if let Placing::As(kind) = asked {
        return (kind, format!("{kind}, as asked for"));
    }
    let medium = |disk: &_| Medium {
        disk: *disk,
        in_place: true,
        page_bytes: page.0,
        segment_bytes: layout.segment_bytes.into(),
    };
    let mediums: Vec<Medium> = measured.disks.iter().map(medium).collect();
    let chosen = choose_by_all(
        &mediums,
        &Known::assumed(page.0, size.map_or(0, |size| size.0), layout.len),
    );
    let chosen = chosen.expect("a device is measured at least once");
    let why = match measured.is_stable {
        true => chosen.why,
        false => format!(
            "{} Measurements of the device do not settle: it may be busy, or have a cache.",
            chosen.why
        ),
    };
    (chosen.kind, why)
}

/// How a filesystem's space is to place data. What is overwritten goes to the log first, so that an operation is whole, and
/// so would be written twice, where a log that is not full writes it once: on flash, 16 writers at a time did 94,000
/// writes a second and not 25,000.
fn for_files(measured: &Measured, page: ByteLen, layout: &Layout) -> (Kind, String) {
    let (kind, why) = placement((Placing::Auto, None), measured, page, layout);
    match kind {
        Kind::Overwrite => {
            let why = "lfs, since a log is about as quick here as writing in place, and that would be done twice";
            (Kind::Lfs, why.into())
        }
        kind => (kind, why),
    }
}

/// Options that keep as many segments spare as make cleaning cheap, whatever the placement. The length that is chosen for a volume
/// follows from them. A filesystem has no such length, so it is always opened with them.
pub(crate) fn comfortable() -> Options {
    Options {
        spare_part: Some(SPARE_PART),
        ..Options::default()
    }
}

/// How much there would be room for on a volume that is made like this. The device is not changed.
async fn capacity(
    rt: &Rt,
    device: &Rc<dyn Device>,
    making: &Making,
    options: Options,
) -> Result<Capacity, OpenError> {
    let trial: Rc<dyn Device> = Rc::new(Overlay::new(Rc::clone(device)));
    create(rt.clone(), Rc::clone(&trial), making).await?;
    let (space, _workers, _) = open(rt.clone(), trial, options, false).await?;
    Ok(space.capacity())
}

#[cfg(test)]
mod tests {
    use forebay_device::RamDevice;
    use forebay_rt::{Executor, VirtualTime};

    use super::*;

    fn made(placement: Kind, size: Option<ByteLen>, spare: Option<&str>) -> MadeSpace {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        let device: Rc<dyn Device> = Rc::new(RamDevice::new(64 << 20, 4096));
        let new = NewSpace {
            size,
            placement: Placing::As(placement),
            spare: spare.map(|spare| spare.parse().unwrap()),
            ..NewSpace::default()
        };
        let layout = layout_on(&device.geometry(), &new).unwrap();
        let made = async move { make(&rt, &device, layout, [7; 16], (&new, Long::Wanted)).await };
        executor.block_on(made).unwrap()
    }

    #[test]
    fn volumes_that_are_dear_to_clean_when_they_are_full_are_made_with_a_warning() {
        for kind in Kind::ALL {
            let usual = made(kind, None, None);
            assert_eq!(usual.warning(), "", "{kind}");
            let shorter = made(kind, Some(ByteLen(usual.len / 2)), None);
            assert_eq!(shorter.warning(), "", "{kind}");
            let longer = made(kind, Some(ByteLen(usual.len + LEN_UNIT)), None);
            assert!(longer.warning().contains(&ByteLen(usual.usual).to_string()));
            assert!(longer.warning().contains("to clean segments"), "{kind}");
        }
        let little = made(Kind::Overwrite, None, Some("1/1024"));
        assert!(little.warning().contains("to clean segments"), "{little:?}");
    }
}
