//! On a disk with one arm, destaging does not stand before users.
//!
//! Found with `forebay try` on an emulated disk: while the log was destaged, a flush took up to 2.6
//! seconds, behind megabytes of reads of the log and dozens of writes home. And a user who came by every
//! 700 ms kept destaging from ever taking home what it had read: it was not done in time, and began anew.

use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, CreateOptions, DataIdentity, Volume, VolumeId};
use forebay_device::{BufMut, Device, Durability, RamDevice, Slice};
use forebay_model::disk::{Options, Scheduling, named};
use forebay_model::{Drive, Emulated};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::ByteLen;

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
    let options = AttachOptions::default();
    let attached = Volume::attach(rt.clone(), log, data, identity, options).await;
    attached.unwrap().0
}

async fn write(volume: &Volume, n: u64) {
    let block = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (DATA_BYTES / 4096);
    let buf = BufMut::copy_of(&[n as u8; 4096]).freeze();
    let written = volume.write(block * 4096, buf, Durability::Flush).await;
    written.unwrap();
}

/// The longest that a write and its flush took while the log was being destaged now and then.
async fn longest_flush(rt: Rt, volume: Volume) -> Duration {
    for n in 0..BLOCKS {
        write(&volume, n).await;
    }
    volume.flush().await.unwrap();
    let mut longest = Duration::ZERO;
    let mut n = BLOCKS;
    while volume.status().destaged_bytes < BLOCKS * 4096 * 3 / 4 {
        assert!(n < 2 * BLOCKS, "it is not destaged");
        // Long enough for users to count as idle, and each time at another point of what goes on then.
        rt.sleep(Duration::from_millis(700 + n * 13 % 100)).await;
        let began = rt.now();
        write(&volume, n).await;
        volume.flush().await.unwrap();
        longest = longest.max(rt.now().since(began));
        n += 1;
    }
    volume.close().await.unwrap();
    longest
}

fn run(test: impl AsyncFnOnce(Rt) -> Duration + 'static) -> Duration {
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
