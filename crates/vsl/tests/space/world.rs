//! A space in memory for tests.

use std::rc::Rc;

use forebay_device::{BufMut, Device, Durability, RamDevice};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, SECTOR_BYTES, Sector};
use forebay_vsl::{
    Batch, PlacementKind, SegmentLayout, Space, SpaceSettings, SpaceSpec, VolumeId, create, open,
};

/// Sectors of the space.
pub(crate) const SECTORS: u64 = 1 << 40;

/// Creates a space of `sectors` sectors on 64 MiB of memory, in segments of 256 KiB, and runs `work` on its device.
pub(crate) fn on_a_new_device(sectors: u64, work: impl AsyncFnOnce(Rt, Rc<dyn Device>) + 'static) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    let device: Rc<dyn Device> = Rc::new(RamDevice::new(64 << 20, 4096));
    let layout =
        SegmentLayout::for_device(&device.geometry(), Some(ByteLen(256 << 10))).expect("fits");
    let making = SpaceSpec {
        volume: VolumeId([7; 16]),
        layout,
        space_sectors: sectors,
        placement: PlacementKind::Lfs,
        auto: false,
        page_sectors: 8,
        disk: None,
    };
    executor.block_on(async move {
        let made = create(rt.clone(), Rc::clone(&device), &making);
        made.await.expect("made");
        work(rt, device).await;
    });
}

/// Runs `work` on a new space of [`SECTORS`].
pub(crate) fn on_a_space(work: impl AsyncFnOnce(Space, Rc<dyn Device>) + 'static) {
    on_a_new_device(SECTORS, async |rt, device| {
        // Only the minimum of the map stays in memory.
        let options = SpaceSettings {
            map_bytes: 0,
            ..SpaceSettings::default()
        };
        let opened = open(rt, Rc::clone(&device), options, false).await;
        let (space, _workers, _) = opened.expect("taken up");
        work(space, device).await;
    });
}

/// Writes sectors that are filled with one byte value.
pub(crate) async fn write(space: &Space, at: u64, sectors: u64, with: u8) {
    let mut data = BufMut::zeroed((sectors * SECTOR_BYTES) as usize);
    data.fill(with);
    let batch = Batch::of_write(Sector(at), data.freeze());
    space.apply(&batch, Durability::Flush).await.expect("done");
}
