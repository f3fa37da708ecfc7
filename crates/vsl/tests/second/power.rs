//! A machine with one disk, of which the power can fail at any request.

use std::fmt::{Display, Formatter};
use std::rc::Rc;

use forebay_device::Device;
use forebay_rt::VirtualTime;
use forebay_sim::disk::{Coin, Image};
use forebay_sim::machine::Machine;
use forebay_sim::role::{Each, Role};
use forebay_units::ByteLen;
use forebay_vsl::{Kind, Layout, Making, VolumeId, create};

use crate::world::SECTORS;

/// Bytes of a segment.
pub(crate) const SEGMENT: u64 = 128 << 10;
/// Byte offset of the first segment on the disk.
pub(crate) const SEGMENTS_AT: u64 = 1 << 20;

/// The only disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Medium;

impl Display for Medium {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("medium")
    }
}

impl Role for Medium {
    const ALL: &'static [Medium] = &[Medium];
}

pub(crate) fn machine(seed: u64, cut_at: Option<u64>, image: &Image) -> Machine<Medium> {
    let medium = Each::of(|_| image.clone());
    let clock = Rc::new(VirtualTime::new());
    Machine::new(seed, cut_at, &medium, &Each::of(|_| 512), clock)
}

/// Returns a disk with an empty volume.
pub(crate) fn made(segments: u64, placement: Kind) -> Image {
    let machine = machine(1, None, &Image::new(SEGMENTS_AT + segments * SEGMENT));
    let (rt, disk) = (machine.rt.clone(), Rc::clone(&machine.disks[Medium]));
    let made = machine.run(async move {
        let layout = Layout::for_device(&disk.geometry(), Some(ByteLen(SEGMENT)));
        let making = Making {
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
    machine.cut(Coin::Keep)[Medium].clone()
}
