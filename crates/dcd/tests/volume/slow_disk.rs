//! On a disk with one arm, destaging does not stand before users.
//!
//! Found with `forebay try` on an emulated disk: while the log was destaged, a flush took up to 2.6
//! seconds, behind megabytes of reads of the log and dozens of writes home. And a user who came by every
//! 700 ms kept destaging from ever taking home what it had read: it was not done in time, and began anew.
//!
//! And a full log does not make writers stand still: on a disk of 150 I/Os a second they did, for up to
//! nine seconds at a time, since room came 16 MiB at a time. `forebay-bench slow` tries more logs, more
//! disks and more depths.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{
    Acknowledge, AttachOptions, CreateOptions, DataIdentity, Destaging, Status, Volume, VolumeId,
};
use forebay_device::{BufMut, Device, Durability, RamDevice, Room, Slice};
use forebay_model::disk::{Options, Scheduling, named};
use forebay_model::{Drive, Emulated, Even};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, SECTOR_BYTES};
use futures_util::future::{Either, join_all, select};

const LOG_BYTES: u64 = 64 << 20;
const DATA_BYTES: u64 = 512 << 20;
/// Scattered blocks that are waiting in the log.
const BLOCKS: u64 = 3000;
/// A read or two, a few writes home, two copies of the superblock, and the flush's own turn.
const FLUSH_MAX: Duration = Duration::from_millis(150);

fn barracuda(rt: &Rt, bytes: u64) -> Rc<dyn Device> {
    let options = Options {
        scheduling: Scheduling::Elevator,
        ..Options::default()
    };
    let drive = Drive::new(named("barracuda").unwrap(), options);
    let data = Rc::new(RamDevice::new(bytes, 512));
    Rc::new(Emulated::new(rt, data, drive).unwrap())
}

async fn volume(rt: &Rt, log: Rc<dyn Device>, data: Rc<dyn Device>) -> Volume {
    let options = AttachOptions::default();
    volume_with(rt, log, data, options).await
}

async fn volume_with(
    rt: &Rt,
    log: Rc<dyn Device>,
    data: Rc<dyn Device>,
    attach: AttachOptions,
) -> Volume {
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
    let attached = Volume::attach(rt.clone(), log, data, identity, attach).await;
    attached.unwrap().0
}

async fn write(volume: &Volume, block: u64) {
    let buf = BufMut::copy_of(&[block as u8; 4096]).freeze();
    let written = volume.write(block * 4096, buf, Durability::Flush).await;
    written.unwrap();
}

/// The longest that a write and its flush took while the log was being destaged now and then.
async fn longest_flush(rt: Rt, volume: Volume) -> Duration {
    for n in 0..BLOCKS {
        write(&volume, scattered(n)).await;
    }
    volume.flush().await.unwrap();
    let mut longest = Duration::ZERO;
    let mut n = BLOCKS;
    while volume.status().destaged_bytes < BLOCKS * 4096 * 3 / 4 {
        assert!(n < 2 * BLOCKS, "it is not destaged");
        // Long enough for users to count as idle, and each time at another point of what goes on then.
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
fn a_flush_waits_for_little_of_what_destaging_asked_of_a_log_disk() {
    let longest = run(async |rt| {
        let (log, data) = (barracuda(&rt, LOG_BYTES), barracuda(&rt, DATA_BYTES));
        let volume = volume(&rt, log, data).await;
        longest_flush(rt, volume).await
    });
    assert!(longest < FLUSH_MAX, "{longest:?} of virtual time");
}

#[test]
fn a_flush_waits_for_little_of_what_destaging_asked_of_the_one_disk() {
    let longest = run(async |rt| {
        let disk = barracuda(&rt, LOG_BYTES + DATA_BYTES);
        let part = |at, len| Slice::new(Rc::clone(&disk), at, len).unwrap();
        let (log, data) = (part(0, LOG_BYTES), part(LOG_BYTES, DATA_BYTES));
        let volume = volume(&rt, Rc::new(log), Rc::new(data)).await;
        longest_flush(rt, volume).await
    });
    assert!(longest < FLUSH_MAX, "{longest:?} of virtual time");
}

/// What a drain of a volume looks like from the outside, every fifth of a second, and at its end.
async fn looks_at_a_drain(rt: &Rt, volume: &Volume) -> Vec<Status> {
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

/// A drain said that nothing was done and nothing known for minutes, while it zeroed what a new
/// filesystem had given up; then data went home in lumps.
#[test]
fn what_is_left_of_a_drain_falls_steadily_and_what_is_being_done_is_said() {
    const ZEROED: u64 = DATA_BYTES / 2;
    run(async |rt| {
        let (log, data) = (barracuda(&rt, LOG_BYTES), barracuda(&rt, DATA_BYTES));
        let volume = volume(&rt, log, data).await;
        let zeroed = volume.write_zeroes(ZEROED..DATA_BYTES, Room::Keep).await;
        zeroed.unwrap();
        for n in 0..BLOCKS {
            write(&volume, scattered(n)).await;
        }
        volume.flush().await.unwrap();
        let looks = looks_at_a_drain(&rt, &volume).await;
        let (first, last) = (&looks[0], looks.last().unwrap());
        assert_eq!(first.marked_bytes, ZEROED);
        let left = |s: &Status| s.marked_bytes + s.dirty_bytes - s.homeward_bytes;
        assert!(looks.windows(2).all(|two| left(&two[0]) >= left(&two[1])));
        assert_eq!((last.marked_bytes, last.dirty_bytes), (0, 0));
        let steps = |doing: Destaging| {
            let looks = looks.iter().filter(|look| look.destaging == doing);
            let mut steps: Vec<u64> = looks.map(left).collect();
            steps.dedup();
            steps.len()
        };
        // 64 MiB are zeroed at a time, and a run of neighbours is written.
        assert!(steps(Destaging::Zeroing) >= 4, "{looks:?}");
        assert!(steps(Destaging::Writing) >= 20, "{looks:?}");
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(volume.status().destaging, Destaging::Resting);
    });
}

/// A device that takes so long for each request, one after another.
fn even(rt: &Rt, len: u64, each: Duration) -> Rc<dyn Device> {
    let data = Rc::new(RamDevice::new(len, 512));
    let disk = Even::new(len / SECTOR_BYTES, each);
    Rc::new(Emulated::new(rt, data, disk).unwrap())
}

/// How a full log served writers.
struct Served {
    by_second: Vec<u64>,
    longest: Duration,
}

/// Which block, by its number, is the so manieth to be written.
type Order = fn(u64) -> u64;

/// All over the disk, hardly any twice.
const SCATTERED: Order = scattered;
/// At first the same blocks over and over, more than a log full of them.
const AGAIN_AND_AGAIN: Order = |n| scattered(if n < 40_000 { n % 8_000 } else { n });
/// At first one after the other, most of a log full of them.
const IN_A_ROW: Order = |n| if n < 12_000 { n } else { scattered(n) };

fn scattered(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (DATA_BYTES / 4096)
}

/// Writes by `depth` writers for `seconds`, from an empty log on.
async fn fill(rt: &Rt, volume: &Volume, depth: u64, order: Order, seconds: usize) -> Served {
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
    Served {
        by_second: by_second.into_inner(),
        longest: longest.get(),
    }
}

/// Requests that the disk serves a second without a log.
const OWN: u64 = 150;

/// Holds writers to a full log before a disk of 150 I/Os a second to what they are promised.
fn serves_evenly(depth: u64, order: Order) {
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
    // Not even while what was written densely in a burst makes room for smaller records.
    assert!(
        worst * 15 >= OWN * 14,
        "depth {depth}: {worst}/s, and {OWN}/s without a log"
    );
    // From the second on, the log is as good as full.
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
fn one_writer_to_a_full_log_before_a_slow_disk_is_served_evenly() {
    serves_evenly(1, SCATTERED);
}

#[test]
fn many_writers_to_a_full_log_before_a_slow_disk_are_served_evenly() {
    serves_evenly(32, SCATTERED);
    serves_evenly(128, SCATTERED);
}

/// How fast the log was emptied said how much to take home at once, and how fast writers might go on. What
/// had been overwritten was emptied in no time, and then they stood still for 22 seconds.
#[test]
fn writers_are_served_evenly_when_the_log_was_full_of_what_had_been_overwritten() {
    serves_evenly(1, AGAIN_AND_AGAIN);
    serves_evenly(32, AGAIN_AND_AGAIN);
}

/// As little as that does what lay in a row at home say of what is scattered.
#[test]
fn writers_are_served_evenly_when_the_log_was_full_of_what_lies_in_a_row() {
    serves_evenly(1, IN_A_ROW);
    serves_evenly(32, IN_A_ROW);
}

/// Each had a record of its own, with a header as long as its data: the log held half of what it could.
#[test]
fn writers_that_wait_for_the_log_and_are_paced_share_records() {
    let (written, served) = run(async |rt| {
        let log = even(&rt, LOG_BYTES, Duration::from_micros(50));
        let data = even(&rt, DATA_BYTES, Duration::from_secs(1) / OWN as u32);
        let options = AttachOptions {
            acknowledge: Acknowledge::Handover,
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
