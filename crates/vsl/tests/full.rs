//! Volumes that write in place and are filled to 98 %.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut, Device, Durability, StampStore};
use forebay_placement::cost::DiskParameters;
use forebay_rng::Rng;
use forebay_rt::{Executor, VirtualTime};
use forebay_units::{ByteLen, LINE_BYTES, SECTOR_BYTES, Sector};
use forebay_vsl::{
    Batch, PlacementKind, SegmentLayout, Space, SpaceError, SpaceSettings, SpaceSpec, SpaceWorkers,
    VolumeId, create, open,
};

const LEN: u64 = 16 << 30;
const PAGE: u64 = 2 * LINE_BYTES;
const PAGE_SECTORS: u64 = PAGE / SECTOR_BYTES;
/// Number of pages that fit into 98 % of the device.
const PAGES: u64 = LEN / 100 * 98 / PAGE;
/// Number of updates after the last page.
const UPDATES: u64 = 4000;

/// Returns a page that contains its number and the number of its update.
fn content(page: u64, update: u64) -> Buf {
    let mut bytes = BufMut::zeroed(PAGE as usize);
    let word = (page << 16 | update).to_le_bytes();
    bytes.as_chunks_mut().0.fill(word);
    bytes.freeze()
}

async fn write(space: &Space, page: u64, update: u64) -> Result<(), SpaceError> {
    let batch = Batch::of_write(Sector(page * PAGE_SECTORS), content(page, update));
    space.apply(&batch, Durability::Flush).await.map(drop)
}

async fn compare(space: &Space, page: u64, update: u64) {
    let read = space
        .read(Sector(page * PAGE_SECTORS), BufMut::to_fill(PAGE as usize))
        .await;
    let read = read.expect("read");
    assert!(
        read[..] == content(page, update)[..],
        "page {page} of update {update}"
    );
}

fn making(placement: PlacementKind, layout: SegmentLayout) -> SpaceSpec {
    SpaceSpec {
        volume: VolumeId([7; 16]),
        layout,
        space_sectors: LEN / SECTOR_BYTES,
        placement,
        auto: false,
        page_sectors: PAGE_SECTORS as u32,
        disk: Some(DiskParameters {
            positioning: 0.0085,
            bandwidth: 20e6,
            arms: 1.0,
        }),
    }
}

/// Fills a volume with pages, updates some of them, and opens the volume again.
fn filled(kind: PlacementKind) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    let device: Rc<dyn Device> = Rc::new(StampStore::new(LEN, 4096));
    let layout = SegmentLayout::for_device(&device.geometry(), Some(ByteLen(1 << 20)));
    let making = making(kind, layout.expect("fits"));
    let work = async move {
        create(rt.clone(), Rc::clone(&device), &making)
            .await
            .expect("made");
        let attach = async || {
            let opened = open(
                rt.clone(),
                Rc::clone(&device),
                SpaceSettings::default(),
                false,
            )
            .await;
            let (space, workers, _) = opened.expect("taken up");
            (space, workers)
        };
        let (space, workers): (Space, SpaceWorkers) = attach().await;
        for page in 0..PAGES {
            let written = write(&space, page, 0).await;
            written.unwrap_or_else(|error| panic!("page {page} of {PAGES}: {error}"));
        }
        space.checkpoint().await.expect("made");
        // Headers, summaries, nodes and other parts of checkpoints take less than 1 % of the device.
        let capacity = space.capacity();
        let beside = capacity.total - capacity.mapped - capacity.unused - capacity.reclaimable;
        assert!(beside < LEN / 100, "{capacity:?}");
        let rng = Rng::new(5);
        let mut updated = std::collections::BTreeMap::new();
        let mut longest = Duration::ZERO;
        for update in 1..=UPDATES {
            let (page, before) = (rng.below(PAGES), rt.now());
            write(&space, page, update).await.expect("an update");
            updated.insert(page, update);
            longest = longest.max(rt.now().since(before));
        }
        space.flush().await.expect("flushed");
        let stats = space.stats();
        println!("{kind}: {stats:?}, longest {longest:?}");
        // The ends of segments are too short for a page. The cleaner gains such an end only by moving all pages of its
        // segment, so it must not start with these segments while other space is left.
        let moved = stats.bytes_moved as f64 / LEN as f64;
        assert!(moved < 0.25, "{kind}: {moved}");
        drop((space, workers));
        let (space, _workers) = attach().await;
        for (page, update) in &updated {
            compare(&space, *page, *update).await;
        }
        for _ in 0..UPDATES {
            let page = rng.below(PAGES);
            compare(&space, page, updated.get(&page).copied().unwrap_or(0)).await;
        }
        assert_eq!(space.capacity().mapped, PAGES * PAGE);
    };
    executor.block_on(work);
}

#[test]
fn hylog_accepts_pages_up_to_98_percent_of_its_device() {
    filled(PlacementKind::HyLog);
}

#[test]
fn overwrite_accepts_pages_up_to_98_percent_of_its_device() {
    filled(PlacementKind::Overwrite);
}

/// A volume full of pages is overwritten in smaller fragments, so its map and the entries of its data grow. It accepts
/// whole blocks, eventually refuses some smaller writes, and never waits forever.
#[test]
fn a_full_volume_accepts_whole_blocks_and_eventually_refuses_smaller_fragments() {
    let kinds = [
        PlacementKind::HyLog,
        PlacementKind::HyLogSepBit,
        PlacementKind::Overwrite,
    ];
    for (kind, sectors) in kinds.into_iter().flat_map(|kind| [(kind, 1), (kind, 8)]) {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        let device: Rc<dyn Device> = Rc::new(StampStore::new(129 << 20, 4096));
        let layout = SegmentLayout::for_device(&device.geometry(), Some(ByteLen(128 << 10)));
        let making = making(kind, layout.expect("fits"));
        let work = async move {
            create(rt.clone(), Rc::clone(&device), &making)
                .await
                .expect("made");
            let opened = open(rt.clone(), device, SpaceSettings::default(), false).await;
            let (space, _workers, _) = opened.expect("taken up");
            let mut pages = 0;
            while write(&space, pages, 0).await.is_ok() {
                pages += 1;
            }
            let rng = Rng::new(7);
            let piece = BufMut::zeroed((sectors * SECTOR_BYTES) as usize).freeze();
            let mut refused = 0;
            for _ in 0..20_000 {
                let sector = Sector(rng.below(pages * PAGE_SECTORS / sectors) * sectors);
                let batch = Batch::of_write(sector, piece.clone());
                refused += u64::from(space.apply(&batch, Durability::Flush).await.is_err());
                if refused > 20 {
                    break;
                }
            }
            match sectors {
                8 => assert_eq!(refused, 0, "{kind}"),
                _ => assert!(refused > 20, "{kind}"),
            }
            let mut trim = Batch::new();
            trim.trim(Sector(0), pages / 4 * PAGE_SECTORS);
            space.apply(&trim, Durability::Flush).await.expect("a trim");
            for page in pages / 2..pages / 2 + 500 {
                write(&space, page, 1).await.expect("there is space again");
                compare(&space, page, 1).await;
            }
            space.checkpoint().await.expect("made");
            space.audit().await.expect("counts are right");
        };
        executor.block_on(work);
    }
}

/// A volume full of pages is killed repeatedly while it is overwritten. Each time, recovery must write a checkpoint
/// with the remaining segments.
#[test]
fn a_full_volume_is_recovered_after_any_number_of_kills() {
    for kind in [
        PlacementKind::HyLog,
        PlacementKind::HyLogSepBit,
        PlacementKind::Overwrite,
    ] {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        let device: Rc<dyn Device> = Rc::new(StampStore::new(129 << 20, 4096));
        let layout = SegmentLayout::for_device(&device.geometry(), Some(ByteLen(128 << 10)));
        let making = making(kind, layout.expect("fits"));
        let work = async move {
            create(rt.clone(), Rc::clone(&device), &making)
                .await
                .expect("made");
            let attach = async || {
                let opened = open(
                    rt.clone(),
                    Rc::clone(&device),
                    SpaceSettings::default(),
                    false,
                )
                .await;
                let (space, workers, _) = opened.expect("taken up");
                (space, workers)
            };
            let (mut space, mut workers): (Space, SpaceWorkers) = attach().await;
            let mut written = Vec::new();
            while write(&space, written.len() as u64, 0).await.is_ok() {
                written.push(0);
            }
            space.flush().await.expect("flushed");
            let rng = Rng::new(9);
            for kill in 1..=60 {
                for _ in 0..rng.below(120) {
                    let page = rng.below(written.len() as u64);
                    write(&space, page, kill).await.expect("an update");
                    written[page as usize] = kill;
                }
                space.flush().await.expect("flushed");
                // The kill comes at any moment of the background work.
                rt.sleep(Duration::from_micros(rng.below(3_000_000))).await;
                drop((space, workers));
                (space, workers) = attach().await;
                let page = rng.below(written.len() as u64);
                compare(&space, page, written[page as usize]).await;
            }
            space.audit().await.expect("counts are right");
            for (page, update) in (0..).zip(&written) {
                compare(&space, page, *update).await;
            }
            drop(workers);
        };
        executor.block_on(work);
    }
}

/// Found in a review: a page of no sectors terminated the program. A superblock can name any page size.
#[test]
fn a_volume_of_any_page_size_is_usable() {
    for page_sectors in [0, 1, 7, u32::MAX] {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        let device: Rc<dyn Device> = Rc::new(StampStore::new(65 << 20, 4096));
        let layout = SegmentLayout::for_device(&device.geometry(), Some(ByteLen(128 << 10)));
        let making = SpaceSpec {
            auto: false,
            page_sectors,
            ..making(PlacementKind::HyLog, layout.expect("fits"))
        };
        executor.block_on(async move {
            create(rt.clone(), Rc::clone(&device), &making)
                .await
                .expect("made");
            let opened = open(rt, device, SpaceSettings::default(), false).await;
            let (space, _workers, _) = opened.expect("taken up");
            write(&space, 3, 1).await.expect("written");
            compare(&space, 3, 1).await;
        });
    }
}
