//! A device that is held still is a complete copy of the volume, and background work leaves it unchanged.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut, Device, Durability, RamDevice};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, LINE_BYTES, LINE_SECTORS, Sector};
use forebay_vsl::{
    Batch, PlacementKind, SegmentLayout, Space, SpaceSettings, SpaceSpec, VolumeId, create, open,
};

const SEGMENT: u64 = 128 << 10;
const SEGMENTS: u64 = 64;
const LEN: u64 = (1 << 20) + SEGMENTS * SEGMENT;

fn page_of(page: u64, version: u64) -> Buf {
    let mut data = BufMut::zeroed(LINE_BYTES as usize);
    for chunk in data.chunks_exact_mut(16) {
        chunk[..8].copy_from_slice(&page.to_le_bytes());
        chunk[8..].copy_from_slice(&version.to_le_bytes());
    }
    data.freeze()
}

fn copy_of(device: &RamDevice) -> Vec<u8> {
    let mut bytes = vec![0; LEN as usize];
    device.peek(0, &mut bytes);
    bytes
}

/// Returns the numbers of the blocks that differ.
fn changed(before: &[u8], after: &[u8]) -> Vec<usize> {
    let block = LINE_BYTES as usize;
    let blocks = before.chunks(block).zip(after.chunks(block)).enumerate();
    let differ = blocks.filter(|(_, (before, after))| before != after);
    differ.map(|(number, _)| number).collect()
}

async fn write(space: &Space, page: u64, version: u64) {
    let batch = Batch::of_write(Sector(page * LINE_SECTORS), page_of(page, version));
    let applied = space.apply(&batch, Durability::Flush).await;
    applied.expect("there is room");
}

/// Updates random pages of a nearly full volume, so that its cleaner works, and holds the device still in the middle.
async fn held_in_the_middle(rt: Rt, placement: PlacementKind) {
    let device = Rc::new(RamDevice::new(LEN, 4096));
    let layout = SegmentLayout::for_device(&device.geometry(), Some(ByteLen(SEGMENT)));
    let making = SpaceSpec {
        volume: VolumeId([7; 16]),
        layout: layout.expect("fits"),
        space_sectors: 1 << 30,
        placement,
        auto: false,
        page_sectors: 8,
        disk: None,
    };
    let as_device = |device: &Rc<RamDevice>| Rc::clone(device) as Rc<dyn Device>;
    let made = create(rt.clone(), as_device(&device), &making).await;
    made.expect("made");
    let options = SpaceSettings {
        home_bytes: 64 << 10,
        ..SpaceSettings::default()
    };
    let opened = open(rt.clone(), as_device(&device), options, false).await;
    let (space, _workers, _) = opened.expect("opened");
    let pages = space.capacity().mappable / 10 * 9 / LINE_BYTES;
    let mut versions = vec![0; pages as usize];
    for page in 0..pages {
        write(&space, page, 0).await;
    }
    for n in 1..3 * pages {
        let page = n * n * 7 % pages;
        write(&space, page, n).await;
        versions[page as usize] = n;
    }
    space.hold_still().await.expect("the device works");
    let copy = copy_of(&device);
    rt.sleep(Duration::from_secs(600)).await;
    space.flush().await.expect("nothing is pending");
    assert_eq!(
        changed(&copy, &copy_of(&device)),
        [0; 0],
        "{placement:?}: these blocks changed"
    );

    let other = Rc::new(RamDevice::new(LEN, 4096));
    other.poke(0, &copy);
    let opened = open(rt.clone(), as_device(&other), options, false).await;
    let (copied, _copied_workers, recovery) = opened.expect("the copy is a volume");
    assert_eq!(recovery.records, 0, "{placement:?}");
    for (page, version) in versions.iter().enumerate() {
        let at = Sector(page as u64 * LINE_SECTORS);
        let buf = BufMut::zeroed(LINE_BYTES as usize);
        let read = copied.read(at, buf).await.expect("read");
        assert_eq!(read[..], page_of(page as u64, *version)[..], "page {page}");
    }

    // The cleaner works again: without it, so many updates would not fit.
    space.resume();
    for n in 0..3 * pages {
        write(&space, n * 11 % pages, n).await;
    }
    space.flush().await.expect("flushed");
    assert!(copy_of(&device) != copy);
}

#[test]
fn a_device_held_still_is_a_complete_copy_of_the_volume() {
    for placement in [
        PlacementKind::Lfs,
        PlacementKind::HyLog,
        PlacementKind::Overwrite,
    ] {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        executor.block_on(held_in_the_middle(rt, placement));
    }
}
