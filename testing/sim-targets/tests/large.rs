//! A log-structured volume whose map is many times larger than its memory: pages scattered over 1 TiB.
//!
//! `FOREBAY_CASES=all` uses 64 MiB of memory and 10 million pages. The default is a sixteenth of both.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, Device, Durability, StampStore};
use forebay_disk_model::{EmulatedDisk, EvenDisk};
use forebay_rng::Rng;
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, LINE_BYTES, LINE_SECTORS, SECTOR_BYTES, Sector};
use forebay_vsl::{
    Batch, PlacementKind, SegmentLayout, Space, SpaceSettings, SpaceSpec, SpaceWorkers, VolumeId,
    create, open,
};

const TIB: u64 = 1 << 40;
/// Time that the drive needs for a request.
const REQUEST: Duration = Duration::from_micros(80);
const READS: u64 = 2000;
const PAGES_IN_A_BATCH: u64 = 256;

#[derive(Clone, Copy)]
struct LargeMapScale {
    map_bytes: u64,
    pages: u64,
    medium_bytes: u64,
    /// Limit of the entries that recovery applies.
    entries: u64,
}

fn scale() -> LargeMapScale {
    let part = if std::env::var("FOREBAY_CASES").is_ok_and(|asked| asked == "all") {
        1
    } else {
        16
    };
    LargeMapScale {
        map_bytes: (64 << 20) / part,
        pages: 10_000_000 / part,
        medium_bytes: (56 << 30) / part,
        entries: (1 << 20) / part,
    }
}

/// Returns the page of the n-th write. The pages are scattered, and no page repeats.
fn page(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 28)
}

fn word(page: u64) -> u64 {
    page + 1
}

async fn open_volume(
    rt: &Rt,
    device: &Rc<dyn Device>,
    scale: LargeMapScale,
) -> (Space, SpaceWorkers) {
    let options = SpaceSettings {
        map_bytes: scale.map_bytes,
        recovery_entries: scale.entries,
        ..SpaceSettings::default()
    };
    let opened = open(rt.clone(), Rc::clone(device), options, false).await;
    let (space, workers, _) = opened.expect("taken up");
    (space, workers)
}

async fn fill(space: &Space, pages: u64) {
    for first in (0..pages).step_by(PAGES_IN_A_BATCH as usize) {
        let mut batch = Batch::new();
        for page in (first..pages.min(first + PAGES_IN_A_BATCH)).map(page) {
            let data = BufMut::copy_of(&word(page).to_le_bytes().repeat(512)).freeze();
            batch.write(Sector(page * LINE_SECTORS), data);
        }
        space.apply(&batch, Durability::Flush).await.expect("done");
    }
    space.flush().await.expect("flushed");
}

/// Returns the numbers of map nodes that some reads had to read first, in ascending order.
async fn read(space: &Space, pages: u64) -> Vec<u64> {
    let rng = Rng::new(3);
    let mut nodes = Vec::new();
    for _ in 0..READS {
        let page = page(rng.below(pages));
        let before = space.stats().node_reads;
        let buf = BufMut::zeroed(LINE_BYTES as usize);
        let read = space.read(Sector(page * LINE_SECTORS), buf).await;
        let expected = word(page).to_le_bytes().repeat(512);
        assert!(read.expect("read")[..] == expected, "page {page}");
        nodes.push(space.stats().node_reads - before);
    }
    nodes.sort_unstable();
    nodes
}

#[test]
fn a_random_page_of_a_tebibyte_costs_one_extra_read_with_little_map_memory() {
    let scale = scale();
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let data = Rc::new(StampStore::new(scale.medium_bytes, 4096));
        let timing = EvenDisk::new(scale.medium_bytes / SECTOR_BYTES, REQUEST);
        let device: Rc<dyn Device> = Rc::new(EmulatedDisk::new(&rt, data, timing).expect("a disk"));
        let making = SpaceSpec {
            volume: VolumeId([5; 16]),
            layout: SegmentLayout::for_device(&device.geometry(), Some(ByteLen::mib(1))).expect("fits"),
            space_sectors: TIB / SECTOR_BYTES,
            placement: PlacementKind::Lfs,
            auto: false,
            page_sectors: 8,
            disk: None,
        };
        create(rt.clone(), Rc::clone(&device), &making)
            .await
            .expect("made");
        let (space, workers) = open_volume(&rt, &device, scale).await;
        fill(&space, scale.pages).await;
        space.checkpoint().await.expect("made");
        let nodes = read(&space, scale.pages).await;
        let (median, most) = (nodes[nodes.len() / 2], nodes[nodes.len() - 1]);
        let memory = space.map_memory() as u64;
        println!(
            "{} pages: {median} nodes read for a page (median), {most} at most; {} KiB of {} KiB for the map",
            scale.pages,
            memory >> 10,
            scale.map_bytes >> 10
        );
        assert!(median <= 1, "{median}");
        assert!(nodes.iter().sum::<u64>() > READS / 4, "all of the map is in memory");
        // Nodes in use may temporarily exceed the limit.
        assert!(memory <= scale.map_bytes + (1 << 20), "{memory}");
        // After a checkpoint, writes nearly as many entries as fit before the next checkpoint.
        space.checkpoint().await.expect("made");
        fill(&space, scale.entries / 8 * 7).await;
        drop((space, workers));
        let (from, wall) = (rt.now(), std::time::Instant::now());
        let (space, _workers) = open_volume(&rt, &device, scale).await;
        let took = rt.now().since(from);
        println!("taken up in {took:?}, {:?} by the wall clock", wall.elapsed());
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert_eq!(space.capacity().mapped, scale.pages * LINE_BYTES);
        read(&space, scale.pages).await;
    });
}
