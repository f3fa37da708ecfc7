//! The longest wait of a write on a full volume, compared with the mean cost of cleaning.
//!
//! A volume is filled until it refuses pages, and clients overwrite pages in closed loops, uniformly at random. Nearly
//! all of the disk's time is then spent on cleaning. The mean cost of cleaning is defined as the longer of two times:
//!
//! - the mean time of a write;
//! - the time in which the cleaner empties one segment: the whole time divided by the number of emptied segments. A
//!   single client cannot wait for less, because free space comes in segments.
//!
//! No write may wait for longer than 10 times that cost. All times are of a virtual clock and of the model of a disk.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, Device, Durability, RamDevice};
use forebay_disk_model::disk::{CacheChoice, DiskOptions, EnabledCaches, Scheduling, named};
use forebay_disk_model::{Drive, EmulatedDisk};
use forebay_placement::cost::DiskParameters;
use forebay_rng::Rng;
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, SECTOR_BYTES, Sector};
use forebay_vsl::{
    Batch, PlacementKind, SegmentLayout, Space, SpaceError, SpaceSettings, SpaceSpec, VolumeId,
    create, open,
};

const SEGMENTS: u64 = 128;
const SEGMENT: u64 = 256 << 10;
const PAGE: u64 = 8 << 10;
const PAGE_SECTORS: u64 = PAGE / SECTOR_BYTES;
/// The longest allowed wait, in mean costs of cleaning.
const BOUND: f64 = 10.0;
/// Passes over the pages before times are measured, and while they are measured.
const WARM_UP: u64 = 2;
const MEASURED: u64 = 1;

/// Returns a disk of 2003 that acknowledges a write when the data is on the platter.
fn disk(rt: &Rt) -> Rc<dyn Device> {
    let options = DiskOptions {
        caches: EnabledCaches::Explicit(CacheChoice {
            immediate_report: false,
            read_ahead: true,
        }),
        scheduling: Scheduling::Elevator,
        phase: 0.0,
    };
    let drive = Drive::new(named("cheetah15k5-2003").expect("known"), options);
    let memory = Rc::new(RamDevice::new((1 << 20) + SEGMENTS * SEGMENT, 512));
    Rc::new(EmulatedDisk::new(rt, memory, drive).expect("fits"))
}

async fn write(space: &Space, page: u64) -> Result<(), SpaceError> {
    let data = BufMut::zeroed(PAGE as usize).freeze();
    let batch = Batch::of_write(Sector(page * PAGE_SECTORS), data);
    space.apply(&batch, Durability::Flush).await.map(drop)
}

/// Creates and opens a volume on the disk, and fills it with pages until it refuses the next page. Returns the number
/// of pages.
async fn filled(rt: &Rt, kind: PlacementKind) -> (Space, forebay_vsl::SpaceWorkers, u64) {
    let device = disk(rt);
    let layout = SegmentLayout::for_device(&device.geometry(), Some(ByteLen(SEGMENT)));
    let making = SpaceSpec {
        volume: VolumeId([7; 16]),
        layout: layout.expect("fits"),
        space_sectors: 1 << 30,
        placement: kind,
        auto: false,
        page_sectors: PAGE_SECTORS as u32,
        disk: Some(DiskParameters {
            positioning: 0.0052,
            bandwidth: 60e6,
            arms: 1.0,
        }),
    };
    create(rt.clone(), Rc::clone(&device), &making)
        .await
        .expect("made");
    let opened = open(rt.clone(), device, SpaceSettings::default(), false).await;
    let (space, workers, _) = opened.expect("opened");
    let mut pages = 0;
    loop {
        match write(&space, pages).await {
            Ok(()) => pages += 1,
            Err(SpaceError::Full { .. }) => return (space, workers, pages),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Lets each client overwrite pages at random, `each` times. Returns the longest time of a write.
async fn overwrite(rt: &Rt, space: &Space, clients: u64, pages: u64, each: u64) -> Duration {
    let clients = (0..clients).map(|client| {
        let (clock, space) = (rt.clone(), space.clone());
        rt.spawn(async move {
            let rng = Rng::new(client + 1);
            let mut longest = Duration::ZERO;
            for _ in 0..each {
                let began = clock.now();
                let written = write(&space, rng.below(pages)).await;
                written.expect("an overwrite needs no more space");
                longest = longest.max(clock.now().since(began));
            }
            longest
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut longest = Duration::ZERO;
    for client in clients {
        longest = longest.max(client.await);
    }
    longest
}

/// Compares the longest wait with the mean cost of cleaning.
fn waits(kind: PlacementKind, clients: u64) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let (space, _workers, pages) = filled(&rt, kind).await;
        overwrite(&rt, &space, clients, pages, WARM_UP * pages / clients).await;
        let (before, began) = (space.stats(), rt.now());
        let each = MEASURED * pages / clients;
        let longest = overwrite(&rt, &space, clients, pages, each).await;
        let (after, span) = (space.stats(), rt.now().since(began));
        let cleaned = after.segments_cleaned - before.segments_cleaned;
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let (longest, span) = (millis(longest), millis(span));
        let (mean, segment) = (span / each as f64, span / cleaned as f64);
        println!(
            "{kind:12} {clients} clients, {pages} pages: mean {mean:.1} ms, a segment {segment:.1} ms, longest {longest:.0} ms"
        );
        assert!(cleaned > 100, "{kind}: the cleaner works");
        assert!(
            longest <= BOUND * mean.max(segment),
            "{kind}, {clients} clients: {longest} ms, mean {mean} ms, a segment {segment} ms"
        );
    });
}

/// Found by this test: while all writers waited for segments, a checkpoint was made only as the last resort. The
/// cleaner emptied segments that only a checkpoint frees, down to its floor. On `overwrite`, a client waited for a
/// second.
#[test]
fn no_write_to_a_full_volume_waits_longer_than_ten_times_the_mean_cost_of_cleaning() {
    for kind in PlacementKind::ALL {
        for clients in [1, 8] {
            waits(kind, clients);
        }
    }
}
