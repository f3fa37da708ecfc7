//! The disk below an aged volume, and the selection of writes to delay.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, DeviceOp};
use forebay_rt::VirtualTime;
use forebay_sim::disk::{DiskImage, DiskRequest, SimDisk};
use forebay_sim::machine::Machine;
use forebay_sim::role::PerDisk;
use forebay_units::ByteLen;
use forebay_vsl::{SegmentLayout, SpaceSpec, VolumeId};

use super::plan::HeldWrites;
use super::recipe::Recipe;
use crate::space::SpaceDisk;

/// Byte offset of the first segment on the disk.
const SEGMENTS_AT: u64 = 1 << 20;
const VOLUME: VolumeId = VolumeId([0xa6; 16]);

/// Creates a machine whose disk holds `image`.
pub(super) fn machine(recipe: &Recipe, seed: u64, image: &DiskImage) -> Machine<SpaceDisk> {
    let clock = Rc::new(VirtualTime::new());
    let medium = PerDisk::of(|_| image.clone());
    let blocks = PerDisk::of(|_| recipe.block);
    Machine::new(seed, None, &medium, &blocks, clock)
}

/// Returns the arguments with which `create` makes the recipe's volume on a disk.
pub(super) fn making(recipe: &Recipe, disk: &dyn Device) -> SpaceSpec {
    let layout = SegmentLayout::for_device(&disk.geometry(), Some(ByteLen(recipe.segment_bytes)));
    SpaceSpec {
        volume: VOLUME,
        layout: layout.expect("it is large enough"),
        space_sectors: recipe.space_sectors(),
        placement: recipe.placement,
        auto: false,
        page_sectors: 8,
        disk: None,
    }
}

/// Selects the writes of a disk that are held.
pub(super) struct WriteHolder {
    segment_bytes: u64,
    held: Cell<Option<HeldWrites>>,
    left: Cell<u64>,
    /// For each segment, the end offset of its last sequential write.
    ends: RefCell<BTreeMap<u64, u64>>,
}

impl WriteHolder {
    pub(super) fn new(recipe: &Recipe) -> Rc<WriteHolder> {
        Rc::new(WriteHolder {
            segment_bytes: recipe.segment_bytes,
            held: Cell::new(None),
            left: Cell::new(0),
            ends: RefCell::default(),
        })
    }

    /// Makes `disk` consult this holder for each request.
    pub(super) fn watch(self: &Rc<Self>, disk: &SimDisk) {
        let holder = Rc::clone(self);
        let hold = move |request: &DiskRequest| holder.holds(request);
        disk.hold.replace(Some(Box::new(hold)));
    }

    /// Holds the next writes that match `held`. `None` ends holding.
    pub(super) fn arm(&self, held: Option<HeldWrites>) {
        self.held.set(held);
        self.left.set(held.map_or(0, |held| held.most));
    }

    /// Returns the number of writes that may still be held.
    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    fn holds(&self, request: &DiskRequest) -> Option<Duration> {
        let at = request.range.start.checked_sub(SEGMENTS_AT)?;
        if request.op != DeviceOp::Write {
            return None;
        }
        let (segment, offset) = (at / self.segment_bytes, at % self.segment_bytes);
        let mut ends = self.ends.borrow_mut();
        let in_place = offset != 0 && ends.get(&segment).is_none_or(|end| offset < *end);
        if !in_place {
            let len = request.range.end - request.range.start;
            ends.insert(segment, offset + len);
        }
        let held = self.held.get()?;
        if self.left.get() == 0 || held.in_place && !in_place {
            return None;
        }
        self.left.set(self.left.get() - 1);
        Some(held.takes)
    }
}
