//! A data device that carries out writes with FUA by a flush, as most disks do.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, CacheMode, DcdVolume};
use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, DeviceOp, Durability, IoFuture, ZeroedSpace,
};
use forebay_rt::Rt;
use forebay_sim::disk::{SimDisk, WriteFate};
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{DiskBytes, checked};
use forebay_units::ByteLen;

use crate::stamped::{holds, write};

const DATA_BYTES: u64 = 2 << 20;
const LINE: u64 = 4096;
const SEGMENTS_AT: u64 = 1 << 20;

/// A disk without FUA, like most disks: the system flushes after the write. If this flush fails, the write fails a
/// millisecond later, but other data that the flush covered is lost at once.
struct FuaByFlush {
    rt: Rt,
    disk: Rc<SimDisk>,
    /// True while a flush that is part of a FUA write is under way.
    for_fua: Rc<Cell<bool>>,
}

impl Device for FuaByFlush {
    fn geometry(&self) -> DeviceGeometry {
        self.disk.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.disk.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.disk.write(at, buf, Durability::Flush).await?;
            if durability == Durability::Fua {
                self.for_fua.set(true);
                let flushed = self.disk.flush().await;
                self.for_fua.set(false);
                if flushed.is_err() {
                    self.rt.sleep(Duration::from_millis(1)).await;
                }
                flushed?;
            }
            Ok(())
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.disk.flush()
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.disk.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.disk.write_zeroes(range, room)
    }
}

/// Runs `each` with a volume whose data device is a [`FuaByFlush`]. Every flush that is part of a FUA write fails, and
/// loses data.
fn with_fua_by_flush<F: Future<Output = ()> + 'static>(
    options: AttachOptions,
    each: impl FnOnce(DcdVolume, Rt, Rc<SimDisk>, Rc<SimDisk>) -> F + 'static,
) {
    let scenario = DiskBytes::fresh(DATA_BYTES).scenario(1, None);
    let (rt, log, data) = scenario.parts();
    scenario.run(async move {
        let for_fua: Rc<Cell<bool>> = Rc::default();
        let home = FuaByFlush {
            rt: rt.clone(),
            disk: Rc::clone(&data),
            for_fua: Rc::clone(&for_fua),
        };
        let identity = forebay_sim_targets::cache::volume::identity(DATA_BYTES);
        let dyn_log = Rc::clone(&log) as Rc<dyn Device>;
        let attached =
            DcdVolume::attach(rt.clone(), dyn_log, Rc::new(home), identity, options).await;
        let (volume, _) = attached.expect("attach");
        data.forgetful.set(true);
        data.fail(move |op, _| op == DeviceOp::Flush && for_fua.get());
        each(volume, rt, log, data).await;
    });
}

async fn write_fua(volume: &DcdVolume, id: u64, at: u64, len: u64) -> bool {
    let buf = BufMut::copy_of(&stamp(id, at, len)).freeze();
    checked(volume)
        .write(at, buf, Durability::Fua)
        .await
        .is_ok()
}

#[test]
fn a_failed_unlogged_fua_write_may_lose_other_unlogged_writes() {
    let options = AttachOptions {
        bypass: Some(ByteLen::kib(64)),
        ..AttachOptions::default()
    };
    with_fua_by_flush(options, |volume, _, _, data| async move {
        write(&volume, 1, 128 * LINE, 16 * LINE).await;
        write_fua(&volume, 2, 256 * LINE, 16 * LINE).await;
        let flushed = volume.flush().await;
        let there = holds(&data.after_cut(WriteFate::Drop), 1, 128 * LINE, 16 * LINE);
        assert!(flushed.is_err() || there, "flushed, and gone");
    });
}

#[test]
fn a_flush_beside_a_failed_fua_write_whose_error_is_delayed_fails() {
    let options = AttachOptions {
        bypass: Some(ByteLen::kib(64)),
        ..AttachOptions::default()
    };
    with_fua_by_flush(options, |volume, rt, _, data| async move {
        write(&volume, 1, 128 * LINE, 16 * LINE).await;
        let writer = volume.clone();
        let writing = rt.spawn(async move { write_fua(&writer, 2, 256 * LINE, 16 * LINE).await });
        while holds(&data.now(), 1, 128 * LINE, 16 * LINE) {
            rt.sleep(Duration::from_micros(20)).await;
        }
        assert!(volume.flush().await.is_err(), "flushed, and gone");
        assert!(!writing.await, "it fails");
    });
}

#[test]
fn a_failed_unlogged_fua_write_may_lose_data_that_is_being_destaged() {
    let options = AttachOptions {
        bypass: Some(ByteLen::kib(64)),
        ..AttachOptions::default()
    };
    with_fua_by_flush(options, |volume, rt, _, data| async move {
        for n in 0..100 {
            write(&volume, 1, (40 + 2 * n) * LINE, LINE).await;
        }
        volume.flush().await.expect("flush");
        let draining = volume.clone();
        let drained = rt.spawn(async move { draining.drain().await.is_ok() });
        while !holds(&data.now(), 1, (40 + 2 * 40) * LINE, LINE) {
            rt.sleep(Duration::from_micros(20)).await;
        }
        write_fua(&volume, 2, 300 * LINE, 16 * LINE).await;
        assert!(drained.await, "drained");
        let mut lost = 0;
        for n in 0..100 {
            let at = (40 + 2 * n) * LINE;
            let buf = BufMut::zeroed(LINE as usize);
            let bytes = checked(&volume).read(at, buf).await.expect("read");
            lost += u32::from(bytes[..] != stamp(1, at, LINE)[..]);
        }
        assert_eq!(
            lost, 0,
            "lines that were flushed, and read as they were before"
        );
    });
}

#[test]
fn a_failed_fua_write_without_a_log_may_lose_other_writes_to_the_data_device() {
    with_fua_by_flush(
        AttachOptions::default(),
        |volume, rt, log, data| async move {
            log.fail(|op, range| op == DeviceOp::Write && range.start >= SEGMENTS_AT);
            write(&volume, 9, 64 * LINE, LINE).await;
            volume.flush().await.expect("the rescue made it durable");
            while volume.status().mode != CacheMode::Degraded {
                rt.sleep(Duration::from_millis(10)).await;
            }
            write(&volume, 1, 65 * LINE, LINE).await;
            assert!(!write_fua(&volume, 2, 80 * LINE, LINE).await, "it fails");
            let flushed = volume.flush().await;
            let there = holds(&data.after_cut(WriteFate::Drop), 1, 65 * LINE, LINE);
            assert!(flushed.is_err() || there, "flushed, and gone");
        },
    );
}
