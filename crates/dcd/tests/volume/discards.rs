//! Zeroes and discards on the data device: their effect, and that no client waits for them long.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use forebay_dcd::{AttachOptions, CreateOptions, DcdVolume};
use forebay_device::{
    Buf, BufMut, DataLocation, Device, DeviceError, DeviceGeometry, Durability, IoFuture,
    RamDevice, ZeroedSpace,
};
use forebay_ring_log::VolumeId;
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_sim_targets::cache::volume::identity;
use forebay_units::ByteLen;

const LINE: u64 = 4096;
const MIB: u64 = 1 << 20;
/// Longest range that may be changed on the data device in one request.
const CHANGE_MAX: u64 = 64 * MIB;

/// A disk that records the ranges it has to zero and discard.
struct RecordingDisk {
    ram: RamDevice,
    discards: bool,
    asked: RefCell<Vec<(&'static str, Range<u64>)>>,
    /// True if writes and all other changes fail.
    broken: Cell<bool>,
}

impl RecordingDisk {
    fn new(len: u64, discards: bool) -> Rc<RecordingDisk> {
        Rc::new(RecordingDisk {
            ram: RamDevice::new(len, 512),
            discards,
            asked: RefCell::default(),
            broken: Cell::new(false),
        })
    }

    fn change<'a>(
        &self,
        what: &'static str,
        range: Range<u64>,
        done: IoFuture<'a, ()>,
    ) -> IoFuture<'a, ()> {
        if self.broken.get() {
            let cause = "broken".into();
            let op = forebay_device::DeviceOp::Write;
            return Box::pin(std::future::ready(Err(DeviceError::Failed { op, cause })));
        }
        self.asked.borrow_mut().push((what, range));
        done
    }

    /// Returns the recorded requests except writes.
    fn taken(&self) -> Vec<(&'static str, Range<u64>)> {
        let asked = self.asked.take();
        asked
            .into_iter()
            .filter(|(what, _)| *what != "write")
            .collect()
    }
}

impl Device for RecordingDisk {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry {
            discard_granularity: if self.discards { 4096 } else { 0 },
            zeroes_by_unmapping: false,
            ..self.ram.geometry()
        }
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.ram.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        let range = at..at + buf.len() as u64;
        self.change("write", range, self.ram.write(at, buf, durability))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.ram.flush()
    }

    /// Changes nothing, which is allowed for a disk.
    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.change("discard", range, self.ram.flush())
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        let what = match room {
            ZeroedSpace::Keep => "keep",
            ZeroedSpace::Release => "release",
        };
        let done = self.ram.write_zeroes(range.clone(), room);
        self.change(what, range, done)
    }
}

struct DiscardRig {
    rt: Rt,
    log: Rc<RamDevice>,
    home: Rc<RecordingDisk>,
}

impl DiscardRig {
    async fn new(rt: Rt, log_bytes: u64, home: Rc<RecordingDisk>) -> DiscardRig {
        let log = Rc::new(RamDevice::new(log_bytes, 512));
        let options = CreateOptions {
            name: "test".into(),
            volume: VolumeId([1; 16]),
            segment: ByteLen::kib(1024),
            data: identity(home.geometry().len),
        };
        forebay_dcd::create(Rc::clone(&log) as _, Rc::clone(&home) as _, options)
            .await
            .unwrap();
        DiscardRig { rt, log, home }
    }

    async fn attach(&self) -> DcdVolume {
        let (log, home) = (Rc::clone(&self.log) as _, Rc::clone(&self.home) as _);
        let (identity, options) = (identity(self.home.geometry().len), AttachOptions::default());
        let attached = DcdVolume::attach(self.rt.clone(), log, home, identity, options).await;
        attached.unwrap().0
    }
}

fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt) -> F) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(test(executor.rt()));
}

async fn read(volume: &DcdVolume, at: u64, len: u64) -> Vec<u8> {
    let buf = BufMut::zeroed(len as usize);
    volume.read(at, buf).await.unwrap().to_vec()
}

async fn write(volume: &DcdVolume, at: u64, byte: u8, len: u64) {
    let mut buf = BufMut::zeroed(len as usize);
    buf.fill(byte);
    volume
        .write(at, buf.freeze(), Durability::Flush)
        .await
        .unwrap();
}

/// Counts the turns of another task on the executor until `work` is done.
async fn turns_during(rt: &Rt, work: impl Future<Output = ()> + 'static) -> u64 {
    let (done, turns) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let other = rt.spawn({
        let (rt, done, turns) = (rt.clone(), Rc::clone(&done), Rc::clone(&turns));
        async move {
            while !done.get() {
                turns.set(turns.get() + 1);
                rt.yield_now().await;
            }
        }
    });
    work.await;
    done.set(true);
    other.await;
    turns.get()
}

/// Zeroes that a filesystem's discards became were written to the data device, and took space there.
#[test]
fn zeroes_that_release_space_release_it_on_the_data_device_even_after_a_crash() {
    run(async |rt| {
        let disks = DiscardRig::new(rt, 64 * MIB, RecordingDisk::new(16 * MIB, true)).await;
        let volume = disks.attach().await;
        write(&volume, 0, 7, 8 * MIB).await;
        volume.drain().await.unwrap();
        disks.home.taken();
        for crash in [false, true] {
            let mut volume = volume.clone();
            volume
                .write_zeroes(MIB..2 * MIB, ZeroedSpace::Release)
                .await
                .unwrap();
            volume
                .write_zeroes(4 * MIB..5 * MIB, ZeroedSpace::Keep)
                .await
                .unwrap();
            volume.flush().await.unwrap();
            if crash {
                // Background work of the old volume must not continue.
                disks.home.broken.set(true);
                drop(volume);
                volume = disks.attach().await;
                disks.home.broken.set(false);
            }
            for at in [MIB, 4 * MIB] {
                assert_eq!(volume.place(at..at + MIB)[0].place, DataLocation::Zero);
                assert!(read(&volume, at, MIB).await == vec![0; MIB as usize]);
            }
            volume.drain().await.unwrap();
            let expected = [("release", MIB..2 * MIB), ("keep", 4 * MIB..5 * MIB)];
            assert_eq!(disks.home.taken(), expected, "crash: {crash}");
        }
    });
}

/// Discarded ranges were reported as zeroes, and read as zeroes, until the discard was carried out. Then reads returned
/// the content that the disk had left there.
#[test]
fn a_discarded_range_is_not_reported_as_zero_and_its_content_stays_stable() {
    run(async |rt| {
        let disks = DiscardRig::new(rt, 64 * MIB, RecordingDisk::new(16 * MIB, true)).await;
        let volume = disks.attach().await;
        write(&volume, 0, 7, 2 * MIB).await;
        volume.drain().await.unwrap();
        write(&volume, 0, 8, MIB).await;
        volume.discard(0..2 * MIB).await.unwrap();
        let before = read(&volume, 0, 2 * MIB).await;
        let places = volume.place(0..2 * MIB);
        assert!(
            places
                .iter()
                .all(|extent| extent.place == DataLocation::Home),
            "{places:?}"
        );
        volume.drain().await.unwrap();
        assert_eq!(disks.home.taken(), [("discard", 0..2 * MIB)]);
        assert!(read(&volume, 0, 2 * MIB).await == before);
    });
}

#[test]
fn a_volume_on_a_disk_without_discard_offers_no_discard_and_sends_none() {
    run(async |rt| {
        let disks = DiscardRig::new(rt, 64 * MIB, RecordingDisk::new(16 * MIB, false)).await;
        let volume = disks.attach().await;
        assert_eq!(volume.geometry().discard_granularity, 0);
        write(&volume, 0, 7, MIB).await;
        volume.discard(0..2 * MIB).await.unwrap();
        assert!(read(&volume, 0, MIB).await == vec![7; MIB as usize]);
        volume.drain().await.unwrap();
        assert!(read(&volume, 0, MIB).await == vec![7; MIB as usize]);
        assert_eq!(disks.home.taken(), []);
    });
}

/// A 4 GiB discard over a large map delayed all other clients, and carrying it out held the lock of 4 GiB.
#[test]
fn a_large_range_is_zeroed_and_destaged_in_steps_and_other_clients_run_between_them() {
    const LEN: u64 = 4 << 30;
    // More blocks than are examined without a pause, not adjacent to each other, and not at the beginning. With fewer
    // blocks, the rest would be done at once.
    const LINES: u64 = 20 << 10;
    run(async |rt| {
        let disks = DiscardRig::new(rt.clone(), 192 * MIB, RecordingDisk::new(LEN, true)).await;
        let volume = disks.attach().await;
        for n in 0..LINES {
            write(&volume, LEN - (n + 1) * 2 * LINE, 7, LINE).await;
        }
        volume.flush().await.unwrap();
        let zeroed = volume.clone();
        let turns = turns_during(&rt, async move {
            zeroed
                .write_zeroes(0..LEN, ZeroedSpace::Release)
                .await
                .unwrap();
        });
        let turns = turns.await;
        assert!(turns >= 60, "others got {turns} turns");
        assert_eq!(volume.status().dirty_bytes, 0);
        disks.home.taken();
        volume.drain().await.unwrap();
        let mut end = 0;
        for (what, range) in disks.home.taken() {
            assert_eq!((what, range.start), ("release", end));
            assert!(range.end - range.start <= CHANGE_MAX, "{range:?}");
            end = range.end;
        }
        assert_eq!(end, LEN);
    });
}
