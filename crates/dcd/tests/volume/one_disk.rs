//! Log and data device on one disk: a failed flush of either makes the disk lose the unflushed writes of both.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, CreateOptions, DcdVolume};
use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, DeviceOp, DeviceSlice, Durability, IoFuture, OneDisk,
    Result, ZeroedSpace,
};
use forebay_rt::Rt;
use forebay_sim::disk::{SimDisk, WriteFate};
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{CacheTestbed, DiskBytes, checked};
use forebay_sim_targets::cache::volume::{VOLUME, identity};
use forebay_units::ByteLen;

use crate::stamped::{holds, write};

const LINE: u64 = 4096;
const HALF: u64 = 6 << 20;

/// A part of a disk, with a number of flushes that will fail. At each of them the disk loses all data that is not
/// durable.
struct FailingPart {
    disk: Rc<SimDisk>,
    part: DeviceSlice,
    rt: Rt,
    failing: Cell<u32>,
    /// Time until a failing flush fails.
    takes: Cell<Duration>,
    /// True while the disk has to fail its flush.
    fails: Rc<Cell<bool>>,
}

impl FailingPart {
    async fn do_flush(&self) -> Result<()> {
        let Some(left) = self.failing.get().checked_sub(1) else {
            return self.disk.flush().await;
        };
        self.failing.set(left);
        self.rt.sleep(self.takes.get()).await;
        self.fails.set(true);
        let flushed = self.disk.flush().await;
        self.fails.set(false);
        flushed
    }
}

impl Device for FailingPart {
    fn geometry(&self) -> DeviceGeometry {
        self.part.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.part.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            if self.failing.get() == 0 {
                return self.part.write(at, buf, durability).await;
            }
            self.part.write(at, buf, Durability::Flush).await?;
            match durability {
                Durability::Flush => Ok(()),
                Durability::Fua => self.do_flush().await,
            }
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(self.do_flush())
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.part.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.part.write_zeroes(range, room)
    }
}

/// Combines two halves of a disk, log first, in the form in which a volume gets them.
fn halves<D: Device + 'static>(halves: [&Rc<D>; 2]) -> [Rc<dyn Device>; 2] {
    let halves = halves.map(|half| Rc::clone(half) as Rc<dyn Device>);
    OneDisk::over(halves).map(|half| half as Rc<dyn Device>)
}

/// Runs `each` with a volume on one disk: the log is the first half, the data device the second. Returns the scenario,
/// for a power cut.
fn on_one_disk<F: Future<Output = ()> + 'static>(
    each: impl FnOnce(DcdVolume, Rt, Rc<FailingPart>, Rc<FailingPart>) -> F + 'static,
) -> CacheTestbed {
    let scenario = DiskBytes::fresh(2 * HALF).scenario(1, None);
    let (rt, _, disk) = scenario.parts();
    let done = scenario.run(async move {
        let fails: Rc<Cell<bool>> = Rc::default();
        let part = |start: u64| {
            let whole = Rc::clone(&disk) as Rc<dyn Device>;
            Rc::new(FailingPart {
                disk: Rc::clone(&disk),
                part: DeviceSlice::new(whole, start, HALF).expect("fits"),
                rt: rt.clone(),
                failing: Cell::new(0),
                takes: Cell::new(Duration::ZERO),
                fails: Rc::clone(&fails),
            })
        };
        let (log, data) = (part(0), part(HALF));
        let [log_half, data_half] = halves([&log, &data]);
        let options = CreateOptions {
            name: "one".into(),
            volume: VOLUME,
            segment: ByteLen::kib(128),
            data: identity(HALF),
        };
        let created = forebay_dcd::create(Rc::clone(&log_half), Rc::clone(&data_half), options);
        created.await.expect("create");
        let options = AttachOptions {
            bypass: Some(ByteLen::kib(64)),
            ..AttachOptions::default()
        };
        let attached =
            DcdVolume::attach(rt.clone(), log_half, data_half, identity(HALF), options).await;
        let (volume, _) = attached.expect("attach");
        disk.forgetful.set(true);
        disk.fail(move |op, _| op == DeviceOp::Flush && fails.get());
        each(volume, rt, log, data).await;
    });
    done.expect("no cut");
    scenario
}

/// Returns the block at `at` of the volume on a disk that holds `image`, after another attach.
fn line_after(image: Vec<u8>, at: u64) -> Vec<u8> {
    let log = vec![0; 1 << 20];
    let scenario = DiskBytes { log, data: image }.scenario(2, None);
    let (rt, _, disk) = scenario.parts();
    let seen = scenario.run(async move {
        let whole = || Rc::clone(&disk) as Rc<dyn Device>;
        let half = |at| Rc::new(DeviceSlice::new(whole(), at, HALF).expect("fits"));
        let [log, data] = halves([&half(0), &half(HALF)]);
        let attached =
            DcdVolume::attach(rt, log, data, identity(HALF), AttachOptions::default()).await;
        let Ok((volume, _)) = attached else {
            // The log is marked as abandoned: the data device alone is the volume.
            let line = half(HALF).read(at, BufMut::zeroed(LINE as usize)).await;
            return line.expect("read").to_vec();
        };
        let line = BufMut::zeroed(LINE as usize);
        checked(&volume)
            .read(at, line)
            .await
            .expect("read")
            .to_vec()
    });
    seen.expect("no cut")
}

#[test]
fn after_a_failed_flush_of_the_log_no_flush_covers_unlogged_writes_on_the_same_disk() {
    let flushed: Rc<Cell<bool>> = Rc::default();
    let noted = Rc::clone(&flushed);
    let scenario = on_one_disk(|volume, _, log, _| async move {
        write(&volume, 1, 128 * LINE, 16 * LINE).await;
        log.failing.set(1);
        write(&volume, 2, 64 * LINE, LINE).await;
        noted.set(volume.flush().await.is_ok());
    });
    let image = scenario.data.after_cut(WriteFate::Drop);
    let there = holds(&image[HALF as usize..], 1, 128 * LINE, 16 * LINE);
    assert!(!there, "the disk forgot it");
    assert!(!flushed.get(), "flushed, and gone");
}

#[test]
fn after_a_failed_flush_of_the_data_device_a_flush_covers_lost_log_writes_on_the_same_disk() {
    let flushed: Rc<Cell<bool>> = Rc::default();
    let noted = Rc::clone(&flushed);
    let scenario = on_one_disk(|volume, rt, _, data| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.expect("flush");
        data.takes.set(Duration::from_millis(300));
        data.failing.set(1);
        let draining = volume.clone();
        let drained = rt.spawn(async move { draining.drain().await.is_ok() });
        rt.sleep(Duration::from_millis(100)).await;
        write(&volume, 2, 80 * LINE, LINE).await;
        // The log writes the block without a flush; then the data device's flush fails.
        rt.sleep(Duration::from_millis(400)).await;
        noted.set(volume.flush().await.is_ok());
        drop(drained);
    });
    assert!(flushed.get(), "the buffer still has it");
    let line = line_after(scenario.data.after_cut(WriteFate::Drop), 80 * LINE);
    assert!(line == stamp(2, 80 * LINE, LINE), "flushed, and gone");
}
