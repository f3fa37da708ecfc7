//! A volume on a simulated disk: making and attaching.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, ZeroedSpace};
use forebay_frontend::freeze::{FreezableDevice, StillVolume, VolumeFreeze};
use forebay_rng::Rng;
use forebay_rt::{Rt, Task, VirtualTime};
use forebay_sim::disk::{DiskImage, WriteFate};
use forebay_sim::machine::Machine;
use forebay_sim::role::PerDisk;
use forebay_sim::stamp::{BEFORE, stamp};
use forebay_units::{ByteLen, SECTOR_BYTES};
use forebay_vsl::{
    PlacementKind, SegmentLayout, Space, SpaceDevice, SpaceError, SpaceOpenError, SpaceRecovery,
    SpaceSettings, SpaceSpec, SpaceWorkers, VolumeId,
};

use super::settings::SpaceDisk;

/// Bytes of a segment, at the minimum.
pub(super) const SEGMENT_BYTES: u64 = 128 << 10;

/// Returns the bytes of the disk: the fewest segments, or enough for the streams of all its placements.
fn medium_bytes(placement: PlacementKind, changes: bool) -> u64 {
    let segments = match placement {
        _ if changes => 64,
        PlacementKind::Lfs | PlacementKind::Overwrite => 32,
        PlacementKind::Wolf | PlacementKind::HyLog => 40,
        PlacementKind::SepBit | PlacementKind::HyLogSepBit => 64,
    };
    (1 << 20) + segments * SEGMENT_BYTES
}

/// The identity of the volume in all scenarios.
const VOLUME: VolumeId = VolumeId([9; 16]);

/// The content of the disk, cheap to copy.
pub(super) type SpaceImage = forebay_sim::machine::DiskContents<SpaceDisk>;

/// An attached volume.
#[derive(Clone)]
pub struct AttachedSpace {
    pub(super) rt: Rt,
    linear: Rc<SpaceDevice>,
    pub(super) gate: VolumeFreeze,
    /// The volume behind the gate.
    served: Rc<FreezableDevice>,
    _workers: Rc<SpaceWorkers>,
    _changing: Option<Rc<Task<()>>>,
}

impl AttachedSpace {
    /// Returns the volume as a device.
    pub fn linear(&self) -> &SpaceDevice {
        &self.linear
    }
}

impl StillVolume for AttachedSpace {
    type Failure = SpaceError;

    async fn drain(&self) -> Result<(), SpaceError> {
        self.linear.space().checkpoint().await
    }

    async fn hold_still(&self) -> Result<(), SpaceError> {
        self.linear.space().hold_still().await
    }

    fn resume(&self) {
        self.linear.space().resume();
    }
}

impl Device for AttachedSpace {
    fn geometry(&self) -> DeviceGeometry {
        self.served.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.served.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        self.served.write(at, buf, durability)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.served.flush()
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.served.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.served.write_zeroes(range, room)
    }
}

/// Changes of the placement while a volume is attached.
pub(super) struct PlacementChanges {
    pub(super) rng: Rng,
    /// The possible placements.
    pub(super) kinds: Vec<PlacementKind>,
}

impl PlacementChanges {
    /// Makes a few changes. A change has no effect if the volume is too full for it, or if the disk fails.
    async fn make(self, rt: Rt, space: Space) {
        for _ in 0..1 + self.rng.below(6) {
            rt.sleep(Duration::from_micros(1 << self.rng.below(16)))
                .await;
            let kind = self.rng.pick(&self.kinds);
            let _ = space.set_placement(Some(kind)).await;
        }
    }
}

/// Returns the future of an attach on a machine.
pub(super) fn attaching(
    machine: &Machine<SpaceDisk>,
    options: SpaceSettings,
    accept_loss: bool,
    changes: Option<PlacementChanges>,
) -> impl Future<Output = Result<(AttachedSpace, SpaceRecovery), SpaceOpenError>> + use<> {
    let rt = machine.rt.clone();
    let disk: Rc<dyn Device> = Rc::clone(&machine.disks[SpaceDisk::Medium]) as Rc<dyn Device>;
    async move {
        let opened = forebay_vsl::open(rt.clone(), disk, options, accept_loss).await;
        let (space, workers, recovery) = opened?;
        let changing = changes.map(|changes| {
            let changing = changes.make(rt.clone(), space.clone());
            Rc::new(rt.spawn(changing))
        });
        let (linear, gate) = (Rc::new(SpaceDevice::new(space)), VolumeFreeze::new(&rt));
        let below = Rc::clone(&linear) as Rc<dyn Device>;
        let served = AttachedSpace {
            _changing: changing,
            rt,
            served: Rc::new(FreezableDevice::new(below, gate.clone())),
            gate,
            linear,
            _workers: Rc::new(workers),
        };
        Ok((served, recovery))
    }
}

/// Makes a disk with a volume of `holds.len()` bytes and this content.
///
/// # Panics
/// If no volume can be made there.
pub(super) fn holding(
    holds: &[u8],
    block: u32,
    placement: PlacementKind,
    changes: bool,
) -> SpaceImage {
    let clock = Rc::new(VirtualTime::new());
    let blocks = PerDisk::of(|_| block);
    let empty = PerDisk::of(|_| DiskImage::new(medium_bytes(placement, changes)));
    let machine = Machine::new(0, None, &empty, &blocks, clock);
    let disk: Rc<dyn Device> = Rc::clone(&machine.disks[SpaceDisk::Medium]) as Rc<dyn Device>;
    let layout = SegmentLayout::for_device(&disk.geometry(), Some(ByteLen(SEGMENT_BYTES)));
    let making = SpaceSpec {
        volume: VOLUME,
        layout: layout.expect("it is large enough"),
        space_sectors: holds.len() as u64 / SECTOR_BYTES,
        placement,
        auto: false,
        page_sectors: 16,
        disk: None,
    };
    let rt = machine.rt.clone();
    let create = async move { forebay_vsl::create(rt, disk, &making).await };
    machine.run(create).expect("no cut").expect("created");
    let attach = attaching(&machine, SpaceSettings::default(), false, None);
    let buf = BufMut::copy_of(holds).freeze();
    let fill = async move {
        let (served, _) = attach.await.expect("attached");
        served
            .write(0, buf, Durability::Flush)
            .await
            .expect("written");
        served.linear.space().checkpoint().await.expect("kept");
    };
    machine.run(fill).expect("no cut");
    machine.cut(WriteFate::Keep)
}

/// Properties of a fresh disk: the volume's length, the disk's block size, the placement, and true if the placement
/// changes.
type FreshSpaceKey = (u64, u32, PlacementKind, bool);

thread_local! {
    /// Fresh disks, made once for all scenarios of a thread.
    static FRESH: RefCell<Vec<(FreshSpaceKey, SpaceImage)>> = const { RefCell::new(Vec::new()) };
}

/// Returns a disk with a volume that has the initial content of all volumes. A thread makes the disk once.
pub(super) fn kept(len: u64, block: u32, placement: PlacementKind, changes: bool) -> SpaceImage {
    let key = (len, block, placement, changes);
    let known = FRESH.with_borrow(|all| {
        let known = all.iter().find(|(known, _)| *known == key);
        known.map(|(_, medium)| medium.clone())
    });
    known.unwrap_or_else(|| {
        let medium = holding(&stamp(BEFORE, 0, len), block, placement, changes);
        FRESH.with_borrow_mut(|all| all.push((key, medium.clone())));
        medium
    })
}
