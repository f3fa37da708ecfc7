//! A machine with one disk, of which the power can fail at any request.

use std::fmt::{Display, Formatter};
use std::rc::Rc;

use forebay_device::Device;
use forebay_rt::VirtualTime;
use forebay_sim::disk::{DiskImage, WriteFate};
use forebay_sim::machine::Machine;
use forebay_sim::role::{DiskRole, PerDisk};
use forebay_units::ByteLen;
use forebay_vsl::{PlacementKind, SegmentLayout, SpaceSpec, VolumeId, create};

use crate::world::SECTORS;

/// Bytes of a segment.
pub(crate) const SEGMENT: u64 = 128 << 10;
/// Byte offset of the first segment on the disk.
pub(crate) const SEGMENTS_AT: u64 = 1 << 20;

/// The only disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SoleDisk;

impl Display for SoleDisk {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("medium")
    }
}

impl DiskRole for SoleDisk {
    const ALL: &'static [SoleDisk] = &[SoleDisk];
}

pub(crate) fn machine(seed: u64, cut_at: Option<u64>, image: &DiskImage) -> Machine<SoleDisk> {
    let medium = PerDisk::of(|_| image.clone());
    let clock = Rc::new(VirtualTime::new());
    Machine::new(seed, cut_at, &medium, &PerDisk::of(|_| 512), clock)
}

/// Returns a disk with an empty volume.
pub(crate) fn made(segments: u64, placement: PlacementKind) -> DiskImage {
    let machine = machine(1, None, &DiskImage::new(SEGMENTS_AT + segments * SEGMENT));
    let (rt, disk) = (machine.rt.clone(), Rc::clone(&machine.disks[SoleDisk]));
    let made = machine.run(async move {
        let layout = SegmentLayout::for_device(&disk.geometry(), Some(ByteLen(SEGMENT)));
        let making = SpaceSpec {
            volume: VolumeId([7; 16]),
            layout: layout.expect("fits"),
            space_sectors: SECTORS,
            placement,
            auto: false,
            page_sectors: 8,
            disk: None,
        };
        create(rt, disk, &making).await.expect("made");
    });
    made.expect("no cut");
    machine.cut(WriteFate::Keep)[SoleDisk].clone()
}
