//! Devices on one disk: a failed flush of one may lose the unflushed writes of all.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    BufMut, Device, DeviceError, Durability, OneDisk, RamDevice, Result, Tap, TapHooks, TapRequest,
};
use forebay_rt::{Executor, Rt, Task, VirtualTime};

const TICK: Duration = Duration::from_millis(1);

/// Delays requests, and fails some.
struct DelayHooks {
    rt: Rt,
    takes: Cell<Duration>,
    fails_flushes: Cell<bool>,
    fails_writes: Cell<bool>,
    flushes: Cell<u32>,
    /// Flushes of both devices under way.
    under_way: Rc<Cell<u32>>,
}

impl TapHooks for DelayHooks {
    async fn before(&self, asked: &TapRequest) -> Result<()> {
        let is_flush = matches!(asked, TapRequest::Flush);
        if is_flush {
            self.flushes.set(self.flushes.get() + 1);
            self.under_way.set(self.under_way.get() + 1);
            assert_eq!(self.under_way.get(), 1, "flushes overlap");
        }
        self.rt.sleep(self.takes.get()).await;
        if is_flush {
            self.under_way.set(self.under_way.get() - 1);
        }
        let fails = match asked {
            TapRequest::Flush => &self.fails_flushes,
            _ => &self.fails_writes,
        };
        if fails.get() {
            Err(DeviceError::Failed {
                op: asked.op(),
                cause: "a test".into(),
            })
        } else {
            Ok(())
        }
    }
}

type DelayDevice = Rc<Tap<RamDevice, DelayHooks>>;

/// Two devices on one disk, and the devices below them.
struct OneDiskRig {
    rt: Rt,
    below: [DelayDevice; 2],
    devices: [Rc<OneDisk>; 2],
}

impl OneDiskRig {
    fn write(&self, n: usize, durability: Durability) -> Task<Result<()>> {
        let device = Rc::clone(&self.devices[n]);
        let bytes = BufMut::zeroed(4096).freeze();
        self.rt
            .spawn(async move { device.write(0, bytes, durability).await })
    }

    fn flush(&self, n: usize) -> Task<Result<()>> {
        let device = Rc::clone(&self.devices[n]);
        self.rt.spawn(async move { device.flush().await })
    }

    async fn fail_flush(&self, n: usize) {
        self.below[n].fails_flushes.set(true);
        self.flush(n).await.expect_err("fails");
        self.below[n].fails_flushes.set(false);
    }
}

fn run<F: Future<Output = ()>>(each: impl FnOnce(OneDiskRig) -> F + 'static) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    let under_way: Rc<Cell<u32>> = Rc::default();
    let below = [0, 1].map(|_| {
        let part = DelayHooks {
            rt: rt.clone(),
            takes: Cell::new(TICK),
            fails_flushes: Cell::default(),
            fails_writes: Cell::default(),
            flushes: Cell::default(),
            under_way: Rc::clone(&under_way),
        };
        Rc::new(Tap::new(RamDevice::new(8192, 4096), part))
    });
    let devices = OneDisk::over(
        below
            .each_ref()
            .map(|below| Rc::clone(below) as Rc<dyn Device>),
    );
    let rig = OneDiskRig { rt, below, devices };
    executor.block_on(async move { each(rig).await });
}

#[test]
fn a_failed_flush_fails_the_next_flush_of_each_device_that_has_unflushed_writes() {
    run(|rig| async move {
        rig.write(1, Durability::Flush).await.expect("writes");
        rig.fail_flush(0).await;
        rig.flush(1).await.expect_err("the disk forgot the write");
        assert_eq!(rig.below[1].flushes.get(), 0, "the disk was not asked");
        rig.flush(1).await.expect("reported once");
        rig.flush(0).await.expect("it has reported its own failure");
    });
}

#[test]
fn a_failed_flush_loses_nothing_of_a_device_whose_writes_are_durable() {
    run(|rig| async move {
        rig.write(1, Durability::Flush).await.expect("writes");
        rig.flush(1).await.expect("flushes");
        rig.write(1, Durability::Fua).await.expect("writes");
        rig.fail_flush(0).await;
        rig.flush(1).await.expect("nothing was forgotten");
    });
}

#[test]
fn a_write_in_flight_during_a_failed_flush_may_be_lost() {
    run(|rig| async move {
        rig.below[1].takes.set(10 * TICK);
        let write = rig.write(1, Durability::Flush);
        rig.rt.sleep(TICK).await;
        rig.fail_flush(0).await;
        write.await.expect("the disk took it");
        rig.flush(1)
            .await
            .expect_err("the disk may have forgotten it");
    });
}

#[test]
fn a_write_that_completes_during_a_flush_needs_another_flush() {
    run(|rig| async move {
        rig.below[1].takes.set(10 * TICK);
        let write = rig.write(1, Durability::Flush);
        rig.rt.sleep(TICK).await;
        let flush = rig.flush(1);
        write.await.expect("writes");
        flush.await.expect("flushes");
        rig.fail_flush(0).await;
        rig.flush(1).await.expect_err("the disk forgot the write");
    });
}

#[test]
fn a_durable_write_during_a_failed_flush_fails() {
    run(|rig| async move {
        rig.below[1].takes.set(10 * TICK);
        let write = rig.write(1, Durability::Fua);
        rig.rt.sleep(TICK).await;
        rig.fail_flush(0).await;
        write
            .await
            .expect_err("the device may carry it out by a flush");
        rig.write(1, Durability::Fua).await.expect("reported once");
    });
}

#[test]
fn a_failed_durable_write_counts_as_a_failed_flush() {
    run(|rig| async move {
        rig.write(1, Durability::Flush).await.expect("writes");
        rig.below[0].fails_writes.set(true);
        rig.write(0, Durability::Fua).await.expect_err("fails");
        rig.flush(1)
            .await
            .expect_err("the disk may have forgotten the write");
        rig.write(1, Durability::Flush).await.expect("writes");
        rig.write(0, Durability::Flush).await.expect_err("fails");
        rig.flush(1).await.expect("no flush failed");
    });
}

#[test]
fn a_flush_fails_if_a_durable_write_fails_during_it() {
    run(|rig| async move {
        rig.write(1, Durability::Flush).await.expect("writes");
        rig.below[0].fails_writes.set(true);
        rig.below[1].takes.set(10 * TICK);
        let flush = rig.flush(1);
        rig.rt.sleep(TICK).await;
        rig.write(0, Durability::Fua).await.expect_err("fails");
        flush
            .await
            .expect_err("the disk may have forgotten the write");
    });
}

/// A disk may lose its cache at once, and report the failure late.
#[test]
fn a_flush_waits_for_concurrent_durable_writes_that_may_have_failed() {
    run(|rig| async move {
        rig.write(1, Durability::Flush).await.expect("writes");
        rig.below[0].fails_writes.set(true);
        rig.below[0].takes.set(10 * TICK);
        let write = rig.write(0, Durability::Fua);
        rig.rt.sleep(TICK).await;
        let beside = [rig.write(1, Durability::Fua), rig.flush(1)];
        for request in beside {
            request.await.expect_err("the disk may have forgotten it");
        }
        write.await.expect_err("fails");
        assert_eq!(rig.below[1].flushes.get(), 1);
    });
}

#[test]
fn flushes_do_not_overlap() {
    run(|rig| async move {
        let flushes = [rig.flush(0), rig.flush(1), rig.flush(0)];
        for flush in flushes {
            flush.await.expect("flushes");
        }
    });
}
