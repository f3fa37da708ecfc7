//! A slow disk: on a disk with one actuator, destaging does not delay clients.
//!
//! Found with `forebay try` on an emulated disk: during destaging, a flush took up to 2.6 seconds, behind megabytes of
//! log reads and dozens of writes to the data device. Also, a client request every 700 ms prevented destaging from ever
//! writing the data that it had read: it did not finish in time, and began again.
//!
//! A full log must not block writers either. On a disk of 150 I/Os a second they were blocked for up to nine seconds at
//! a time, since space was freed 16 MiB at a time. `forebay-bench slow` tries more logs, more disks and more depths.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{
    AttachOptions, CreateOptions, DataIdentity, DcdStatus, DcdVolume, DestageActivity, VolumeId,
};
use forebay_device::{AckMode, BufMut, Device, DeviceSlice, Durability, RamDevice, ZeroedSpace};
use forebay_disk_model::disk::{DiskOptions, Scheduling, named};
use forebay_disk_model::{Drive, EmulatedDisk, EvenDisk};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, SECTOR_BYTES};
use futures_util::future::{Either, join_all, select};

const LOG_BYTES: u64 = 64 << 20;
const DATA_BYTES: u64 = 512 << 20;
/// Scattered blocks that are waiting in the log.
const BLOCKS: u64 = 3000;
/// A read or two, a few writes to the data device, two copies of the superblock, and the flush itself.
const FLUSH_MAX: Duration = Duration::from_millis(150);

fn barracuda(rt: &Rt, bytes: u64) -> Rc<dyn Device> {
    let options = DiskOptions {
        scheduling: Scheduling::Elevator,
        ..DiskOptions::default()
    };
    let drive = Drive::new(named("barracuda").unwrap(), options);
    let data = Rc::new(RamDevice::new(bytes, 512));
    Rc::new(EmulatedDisk::new(rt, data, drive).unwrap())
}

async fn volume(rt: &Rt, log: Rc<dyn Device>, data: Rc<dyn Device>) -> DcdVolume {
    let options = AttachOptions::default();
    volume_with(rt, log, data, options).await
}

async fn volume_with(
    rt: &Rt,
    log: Rc<dyn Device>,
    data: Rc<dyn Device>,
    attach: AttachOptions,
) -> DcdVolume {
    let identity = DataIdentity {
        len: DATA_BYTES,
        path: "data".into(),
        names: Vec::new(),
    };
    let options = CreateOptions {
        name: "slow".into(),
        volume: VolumeId([7; 16]),
        segment: ByteLen::mib(1),
        data: identity.clone(),
    };
    let created = forebay_dcd::create(Rc::clone(&log), Rc::clone(&data), options).await;
    created.unwrap();
    let attached = DcdVolume::attach(rt.clone(), log, data, identity, attach).await;
    attached.unwrap().0
}

async fn write(volume: &DcdVolume, block: u64) {
    let buf = BufMut::copy_of(&[block as u8; 4096]).freeze();
    let written = volume.write(block * 4096, buf, Durability::Flush).await;
    written.unwrap();
}

/// Returns the longest time of a write with its flush while the log was repeatedly destaged.
async fn longest_flush(rt: Rt, volume: DcdVolume) -> Duration {
    for n in 0..BLOCKS {
        write(&volume, scattered(n)).await;
    }
    volume.flush().await.unwrap();
    let mut longest = Duration::ZERO;
    let mut n = BLOCKS;
    while volume.status().destaged_bytes < BLOCKS * 4096 * 3 / 4 {
        assert!(n < 2 * BLOCKS, "it is not destaged");
        // Long enough for clients to be considered idle, and each time at another point of destaging.
        rt.sleep(Duration::from_millis(700 + n * 13 % 100)).await;
        let began = rt.now();
        write(&volume, scattered(n)).await;
        volume.flush().await.unwrap();
        longest = longest.max(rt.now().since(began));
        n += 1;
    }
    volume.close().await.unwrap();
    longest
}

fn run<T: 'static>(test: impl AsyncFnOnce(Rt) -> T + 'static) -> T {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move { test(rt).await })
}

#[test]
fn a_flush_waits_only_briefly_for_reads_of_destaging_on_the_log_disk() {
    let longest = run(async |rt| {
        let (log, data) = (barracuda(&rt, LOG_BYTES), barracuda(&rt, DATA_BYTES));
        let volume = volume(&rt, log, data).await;
        longest_flush(rt, volume).await
    });
    assert!(longest < FLUSH_MAX, "{longest:?} of virtual time");
}

#[test]
fn a_flush_waits_only_briefly_for_destaging_on_a_shared_disk() {
    let longest = run(async |rt| {
        let disk = barracuda(&rt, LOG_BYTES + DATA_BYTES);
        let part = |at, len| DeviceSlice::new(Rc::clone(&disk), at, len).unwrap();
        let (log, data) = (part(0, LOG_BYTES), part(LOG_BYTES, DATA_BYTES));
        let volume = volume(&rt, Rc::new(log), Rc::new(data)).await;
        longest_flush(rt, volume).await
    });
    assert!(longest < FLUSH_MAX, "{longest:?} of virtual time");
}

/// Samples the status during a drain, every fifth of a second and at its end.
async fn looks_at_a_drain(rt: &Rt, volume: &DcdVolume) -> Vec<DcdStatus> {
    let mut looks = vec![volume.status()];
    let mut draining = pin!(volume.drain());
    loop {
        let pause = pin!(rt.sleep(Duration::from_millis(200)));
        let ended = match select(draining.as_mut(), pause).await {
            Either::Left((drained, _)) => {
                drained.unwrap();
                true
            }
            Either::Right(_) => false,
        };
        looks.push(volume.status());
        if ended {
            return looks;
        }
    }
}

/// For minutes, the status of a drain showed no progress and no estimate, while the drain zeroed the ranges that a new
/// filesystem had unmapped. Then the remaining data fell in large steps.
#[test]
fn the_remaining_work_of_a_drain_falls_steadily_and_its_activity_is_reported() {
    const ZEROED: u64 = DATA_BYTES / 2;
    run(async |rt| {
        let (log, data) = (barracuda(&rt, LOG_BYTES), barracuda(&rt, DATA_BYTES));
        let volume = volume(&rt, log, data).await;
        let zeroed = volume
            .write_zeroes(ZEROED..DATA_BYTES, ZeroedSpace::Keep)
            .await;
        zeroed.unwrap();
        for n in 0..BLOCKS {
            write(&volume, scattered(n)).await;
        }
        volume.flush().await.unwrap();
        let looks = looks_at_a_drain(&rt, &volume).await;
        let (first, last) = (&looks[0], looks.last().unwrap());
        assert_eq!(first.pending_discard_bytes, ZEROED);
        let left =
            |s: &DcdStatus| s.pending_discard_bytes + s.dirty_bytes - s.destage_unflushed_bytes;
        assert!(looks.windows(2).all(|two| left(&two[0]) >= left(&two[1])));
        assert_eq!((last.pending_discard_bytes, last.dirty_bytes), (0, 0));
        let steps = |doing: DestageActivity| {
            let looks = looks.iter().filter(|look| look.destaging == doing);
            let mut steps: Vec<u64> = looks.map(left).collect();
            steps.dedup();
            steps.len()
        };
        // 64 MiB are zeroed at a time, and neighbouring blocks are written together.
        assert!(steps(DestageActivity::Zeroing) >= 4, "{looks:?}");
        assert!(steps(DestageActivity::Writing) >= 20, "{looks:?}");
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(volume.status().destaging, DestageActivity::Resting);
    });
}

/// Creates a device that takes `each` for every request, one after the other.
fn even(rt: &Rt, len: u64, each: Duration) -> Rc<dyn Device> {
    let data = Rc::new(RamDevice::new(len, 512));
    let disk = EvenDisk::new(len / SECTOR_BYTES, each);
    Rc::new(EmulatedDisk::new(rt, data, disk).unwrap())
}

/// Service of writers by a full log: writes in each second, and the longest write.
struct WriterThroughput {
    by_second: Vec<u64>,
    longest: Duration,
}

/// Maps the sequence number of a write to its block.
type WriteOrder = fn(u64) -> u64;

/// Scattered over the disk, with hardly any block repeated.
const SCATTERED: WriteOrder = scattered;
/// At first the same blocks repeatedly, more than the log can hold.
const AGAIN_AND_AGAIN: WriteOrder = |n| scattered(if n < 40_000 { n % 8_000 } else { n });
/// At first adjacent blocks in order, which fill most of the log.
const IN_A_ROW: WriteOrder = |n| if n < 12_000 { n } else { scattered(n) };

fn scattered(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (DATA_BYTES / 4096)
}

/// Writes with `depth` writers for `seconds`, beginning with an empty log.
async fn fill(
    rt: &Rt,
    volume: &DcdVolume,
    depth: u64,
    order: WriteOrder,
    seconds: usize,
) -> WriterThroughput {
    let (next, longest) = (Cell::new(0), Cell::new(Duration::ZERO));
    let (by_second, began) = (RefCell::new(vec![0; seconds]), rt.now());
    let writers = (0..depth).map(|_| async {
        loop {
            let then = rt.now();
            write(volume, order(next.replace(next.get() + 1))).await;
            longest.set(longest.get().max(rt.now().since(then)));
            let second = rt.now().since(began).as_secs() as usize;
            match by_second.borrow_mut().get_mut(second) {
                Some(count) => *count += 1,
                None => return,
            }
        }
    });
    join_all(writers).await;
    WriterThroughput {
        by_second: by_second.into_inner(),
        longest: longest.get(),
    }
}

/// Requests per second that the disk serves without a log.
const OWN: u64 = 150;

/// Asserts the guaranteed service of writers with a full log and a disk of 150 I/Os a second.
fn serves_evenly(depth: u64, order: WriteOrder) {
    const SECONDS: usize = 180;
    let served = run(async move |rt| {
        let log = even(&rt, LOG_BYTES, Duration::from_micros(50));
        let data = even(&rt, DATA_BYTES, Duration::from_secs(1) / OWN as u32);
        let volume = volume(&rt, log, data).await;
        let served = fill(&rt, &volume, depth, order, SECONDS).await;
        let began = rt.now();
        volume.close().await.unwrap();
        let took = rt.now().since(began);
        assert!(took < Duration::from_secs(1), "closed in {took:?}");
        served
    });
    let all = &served.by_second;
    let mut steady = all[SECONDS / 2..].to_vec();
    steady.sort_unstable();
    let median = steady[steady.len() / 2];
    let worst = *all.iter().min().unwrap();
    assert!(
        worst * 2 >= median,
        "depth {depth}: {worst}/s, as a rule {median}/s"
    );
    // This also holds while a dense burst is destaged and smaller records fill its space.
    assert!(
        worst * 15 >= OWN * 14,
        "depth {depth}: {worst}/s, and {OWN}/s without a log"
    );
    // From the second second on, the log is practically full.
    let mean = all[1..].iter().sum::<u64>() / (SECONDS as u64 - 1);
    assert!(
        mean >= OWN,
        "depth {depth}: {mean}/s, and {OWN}/s without a log"
    );
    let longest = served.longest;
    assert!(
        longest <= Duration::from_secs(1),
        "depth {depth}: a write took {longest:?}"
    );
}

#[test]
fn a_single_writer_to_a_full_log_over_a_slow_disk_is_served_evenly() {
    serves_evenly(1, SCATTERED);
}

#[test]
fn many_writers_to_a_full_log_over_a_slow_disk_are_served_evenly() {
    serves_evenly(32, SCATTERED);
    serves_evenly(128, SCATTERED);
}

/// The rate at which the log was emptied determined the size of the next window and the pace of writers. Overwritten
/// data was emptied very fast, and then writers were blocked for 22 seconds.
#[test]
fn writers_are_served_evenly_after_the_log_was_full_of_overwritten_data() {
    serves_evenly(1, AGAIN_AND_AGAIN);
    serves_evenly(32, AGAIN_AND_AGAIN);
}

/// Likewise, the rate for adjacent blocks does not predict the rate for scattered blocks.
#[test]
fn writers_are_served_evenly_after_the_log_was_full_of_adjacent_blocks() {
    serves_evenly(1, IN_A_ROW);
    serves_evenly(32, IN_A_ROW);
}

/// Each write had a record of its own, with a header as long as its data, so the log held half of its possible data.
#[test]
fn paced_writers_that_wait_for_the_log_share_records() {
    let (written, served) = run(async |rt| {
        let log = even(&rt, LOG_BYTES, Duration::from_micros(50));
        let data = even(&rt, DATA_BYTES, Duration::from_secs(1) / OWN as u32);
        let options = AttachOptions {
            acknowledge: AckMode::Device,
            ..AttachOptions::default()
        };
        let volume = volume_with(&rt, log, data, options).await;
        // Until the log is full.
        fill(&rt, &volume, 32, SCATTERED, 5).await;
        let before = volume.status().log_written_bytes;
        let served = fill(&rt, &volume, 32, |n| scattered(n + (1 << 20)), 60).await;
        let written = volume.status().log_written_bytes - before;
        volume.close().await.unwrap();
        (written, served)
    });
    let each = written / served.by_second.iter().sum::<u64>();
    assert!(each < 5_000, "{each} bytes of log for a write of 4096");
    let longest = served.longest;
    assert!(longest <= Duration::from_secs(1), "{longest:?}");
}
