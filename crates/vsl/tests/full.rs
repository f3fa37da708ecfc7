//! Volumes of which users' data fills 98 %.

use std::rc::Rc;

use forebay_device::{Buf, BufMut, Device, Durability, StampStore};
use forebay_placement::cost::Disk;
use forebay_rng::Rng;
use forebay_rt::{Executor, VirtualTime};
use forebay_units::{ByteLen, LINE_BYTES, Sector};
use forebay_vsl::{Batch, Kind, Layout, Making, Options, Space, VolumeId, create, open};

const PAGE: u64 = 2 * LINE_BYTES;
const PAGE_SECTORS: u64 = PAGE / 512;

/// A page whose content tells its number and how often it was written before.
fn content(page: u64, version: u64) -> Buf {
    let mut bytes = BufMut::zeroed(PAGE as usize);
    let word = (page << 16 | version).to_le_bytes();
    bytes.as_chunks_mut().0.fill(word);
    bytes.freeze()
}

async fn write(space: &Space, page: u64, version: u64) -> Result<i64, forebay_vsl::SpaceError> {
    let batch = Batch::of_write(Sector(page * PAGE_SECTORS), content(page, version));
    space.apply(&batch, Durability::Flush).await
}

/// Fills a device of so many bytes with pages of 8 KiB until no more is taken. Returns which part of the device that is.
fn filled(kind: Kind, len: u64, random: bool) -> f64 {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    let device: Rc<dyn Device> = Rc::new(StampStore::new(len, 4096));
    let layout = Layout::for_device(&device.geometry(), Some(ByteLen(1 << 20))).expect("fits");
    let making = Making {
        volume: VolumeId([7; 16]),
        layout,
        space_sectors: 1 << 40,
        placement: kind,
        page_sectors: PAGE_SECTORS as u32,
        disk: Some(Disk {
            positioning: 0.0085,
            bandwidth: 20e6,
        }),
    };
    let work = async move {
        create(rt.clone(), Rc::clone(&device), &making).await.expect("made");
        let opened = open(rt.clone(), device, Options::default(), false).await;
        let (space, _workers, _) = opened.expect("taken up");
        let mut pages = 0;
        while write(&space, pages, 0).await.is_ok() {
            pages += 1;
        }
        println!("{kind}: {}", (pages * PAGE) as f64 / len as f64);
        let rng = Rng::new(5);
        let begin = rt.now();
        for n in 0..40_000 {
            write(&space, rng.below(pages), n).await.expect("done");
        }
        let s = space.stats();
        println!("{:?} {:?}", s, space.log_stats());
        let _ = (random, begin);
        (pages * PAGE) as f64 / len as f64
    };
    executor.block_on(work)
}

#[test]
fn pages_fill_98_percent_of_a_volume_that_writes_in_place() {
    for kind in [Kind::HyLog, Kind::Overwrite] {
        for len in [4u64 << 30, 16 << 30] {
            let part = filled(kind, len, false);
            println!("{kind} {len} {part}");
        }
    }
}
