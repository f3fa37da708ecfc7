//! The emulated device over a model with simple times: every command takes 5 ms on a single arm. With a write cache, a
//! write is answered at once, and each write adds 5 ms to the next flush.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    Buf, BufMut, Device, Durability, RamDevice, Tap, TapHooks, TapRequest, ZeroedSpace,
};
use forebay_disk_model::disk::{
    CacheChoice, DiskCompletion, DiskOp, DiskOptions, EnabledCaches, ServiceTimes, named,
};
use forebay_disk_model::{Drive, EmulatedDisk, EmulatedError, TimingModel};
use forebay_rt::{Executor, Instant, Rt, VirtualTime};
use futures_util::future::{join, join3};

const SERVICE: Duration = Duration::from_millis(5);
const SECTORS: u64 = 1 << 20;

#[derive(Default)]
struct ArmModel {
    cache: bool,
    cached: u32,
    free_at: Instant,
    queue: VecDeque<DiskCompletion>,
    /// Commands received, shared with the test.
    log: Rc<RefCell<Vec<(DiskOp, u64, u32)>>>,
}

impl ArmModel {
    fn work(&mut self, now: Instant, id: u64, span: Duration) {
        self.free_at = self.free_at.max(now).plus(span);
        self.queue.push_back(DiskCompletion {
            id,
            at: self.free_at,
            service: ServiceTimes::default(),
        });
    }
}

impl TimingModel for ArmModel {
    fn blocks(&self) -> u64 {
        SECTORS
    }

    fn has_write_cache(&self) -> bool {
        self.cache
    }

    fn submit(&mut self, now: Instant, id: u64, op: DiskOp, first: u64, blocks: u32) {
        self.log.borrow_mut().push((op, first, blocks));
        if self.cache && op == DiskOp::Write {
            self.cached += 1;
            self.work(now, id, Duration::ZERO);
        } else {
            self.work(now, id, SERVICE);
        }
    }

    fn flush(&mut self, now: Instant, id: u64) {
        let cached = std::mem::take(&mut self.cached);
        self.work(now, id, SERVICE * cached);
    }

    fn next_event(&self) -> Option<Instant> {
        self.queue.front().map(|completion| completion.at)
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<DiskCompletion>) {
        while self.queue.front().is_some_and(|first| first.at <= now) {
            done.extend(self.queue.pop_front());
        }
    }
}

/// Device that delays I/O, and records the kinds of writes.
struct SlowContents {
    rt: Rt,
    delay: Duration,
    calls: RefCell<Vec<&'static str>>,
}

type SlowRam = Tap<RamDevice, SlowContents>;

fn below(rt: &Rt, delay: Duration) -> Rc<SlowRam> {
    let hooks = SlowContents {
        rt: rt.clone(),
        delay,
        calls: RefCell::default(),
    };
    Rc::new(Tap::new(RamDevice::new(1 << 20, 512), hooks))
}

impl TapHooks for SlowContents {
    async fn before(&self, asked: &TapRequest) -> forebay_device::Result<()> {
        let call = match asked {
            TapRequest::Write(_, _, Durability::Fua) => Some("fua"),
            TapRequest::Write(_, _, Durability::Flush) => Some("write"),
            TapRequest::Flush => Some("flush"),
            TapRequest::WriteZeroes(..) => Some("zeroes"),
            TapRequest::Read(_) | TapRequest::Discard(_) => None,
        };
        self.calls.borrow_mut().extend(call);
        if let TapRequest::Read(_) | TapRequest::Write(..) = asked {
            self.rt.sleep(self.delay).await;
        }
        Ok(())
    }
}

fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce(Rt) -> F) -> T {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(test(executor.rt()))
}

fn emulated(rt: &Rt, cache: bool) -> (EmulatedDisk, Rc<SlowRam>) {
    let below = below(rt, Duration::ZERO);
    let arm = ArmModel {
        cache,
        ..ArmModel::default()
    };
    let data = Rc::clone(&below) as Rc<dyn Device>;
    (EmulatedDisk::new(rt, data, arm).unwrap(), below)
}

fn ms(rt: &Rt) -> u64 {
    rt.now().as_nanos() / 1_000_000
}

fn some(byte: u8) -> Buf {
    BufMut::copy_of(&[byte; 512]).freeze()
}

#[test]
fn a_request_takes_the_time_of_the_model_and_returns_its_data() {
    run(|rt| async move {
        let (disk, _) = emulated(&rt, false);
        disk.write(512, some(7), Durability::Flush).await.unwrap();
        assert_eq!(ms(&rt), 5);
        let read = disk.read(512, BufMut::zeroed(512)).await.unwrap();
        assert_eq!((ms(&rt), read[0]), (10, 7));
        let lateness = disk.lateness();
        assert_eq!((lateness.answers, lateness.worst), (2, Duration::ZERO));
    });
}

#[test]
fn concurrent_requests_wait_for_the_single_arm() {
    run(|rt| async move {
        let (disk, _) = emulated(&rt, false);
        let one = async |at| {
            disk.read(at, BufMut::zeroed(512)).await.unwrap();
            ms(&rt)
        };
        assert_eq!(join3(one(0), one(512), one(1024)).await, (5, 10, 15));
    });
}

#[test]
fn slices_of_one_disk_wait_for_each_other() {
    run(|rt| async move {
        let (disk, _) = emulated(&rt, false);
        let disk: Rc<dyn Device> = Rc::new(disk);
        let half = |at| forebay_device::DeviceSlice::new(Rc::clone(&disk), at, 1 << 19).unwrap();
        let (log, data) = (half(0), half(1 << 19));
        let write = async |device: &dyn Device| {
            device.write(0, some(1), Durability::Flush).await.unwrap();
            ms(&rt)
        };
        assert_eq!(join(write(&log), write(&data)).await, (5, 10));
    });
}

#[test]
fn data_slower_than_the_model_is_awaited_and_counted_as_late() {
    run(|rt| async move {
        let below = below(&rt, Duration::from_millis(8));
        let disk = EmulatedDisk::new(&rt, below, ArmModel::default()).unwrap();
        disk.read(0, BufMut::zeroed(512)).await.unwrap();
        assert_eq!(ms(&rt), 8);
        let lateness = disk.lateness();
        assert_eq!((lateness.answers, lateness.by_data), (1, 1));
        assert_eq!(lateness.worst, Duration::from_millis(3));
    });
}

#[test]
fn without_a_write_cache_completed_writes_are_durable_and_a_flush_is_free() {
    run(|rt| async move {
        let (disk, below) = emulated(&rt, false);
        assert!(!disk.geometry().volatile);
        disk.write(0, some(1), Durability::Flush).await.unwrap();
        disk.write_zeroes(0..512, ZeroedSpace::Keep).await.unwrap();
        let before = ms(&rt);
        disk.flush().await.unwrap();
        assert_eq!(ms(&rt), before);
        // The flush below belongs to the zeroes, which cannot be written through.
        assert_eq!(*below.calls.borrow(), ["fua", "zeroes", "flush"]);
    });
}

#[test]
fn with_a_write_cache_writes_are_volatile_until_a_flush() {
    run(|rt| async move {
        let (disk, below) = emulated(&rt, true);
        assert!(disk.geometry().volatile);
        disk.write(0, some(1), Durability::Flush).await.unwrap();
        disk.write(512, some(1), Durability::Flush).await.unwrap();
        assert_eq!(ms(&rt), 0);
        disk.flush().await.unwrap();
        assert_eq!(ms(&rt), 10);
        assert_eq!(*below.calls.borrow(), ["write", "write", "flush"]);
    });
}

#[test]
fn with_a_write_cache_a_durable_write_waits_for_the_platters() {
    run(|rt| async move {
        let (disk, below) = emulated(&rt, true);
        disk.write(0, some(1), Durability::Fua).await.unwrap();
        assert_eq!(ms(&rt), 5);
        assert_eq!(*below.calls.borrow(), ["fua"]);
    });
}

#[test]
fn unmapping_takes_no_time_and_zeroing_takes_the_time_of_a_write() {
    run(|rt| async move {
        let (disk, below) = emulated(&rt, false);
        disk.discard(0..4096).await.unwrap();
        disk.write_zeroes(0..4096, ZeroedSpace::Release)
            .await
            .unwrap();
        assert_eq!(ms(&rt), 0);
        // As durable as a write: without a write cache, at once.
        assert_eq!(*below.calls.borrow(), ["zeroes", "flush"]);
        disk.write_zeroes(0..4096, ZeroedSpace::Keep).await.unwrap();
        assert_eq!(ms(&rt), 5);
    });
}

#[test]
fn a_request_too_long_for_one_command_is_split_into_consecutive_commands() {
    run(|rt| async move {
        let log = Rc::new(RefCell::default());
        let arm = ArmModel {
            log: Rc::clone(&log),
            ..ArmModel::default()
        };
        let data = Rc::new(RamDevice::new(100 << 20, 512));
        let disk = EmulatedDisk::new(&rt, data, arm).unwrap();
        disk.write_zeroes(1 << 20..65 << 20, ZeroedSpace::Keep)
            .await
            .unwrap();
        assert_eq!(ms(&rt), 15);
        let commands = [
            (DiskOp::Write, 2048, 65535),
            (DiskOp::Write, 2048 + 65535, 65535),
            (DiskOp::Write, 2048 + 2 * 65535, 2),
        ];
        assert_eq!(*log.borrow(), commands);
    });
}

#[test]
fn an_image_is_the_first_part_of_the_disk_and_must_not_be_larger() {
    run(|rt| async move {
        let (disk, _) = emulated(&rt, false);
        assert_eq!(disk.geometry().len, 1 << 20);
        let capacity = SECTORS * 512;
        let data = Rc::new(RamDevice::new(capacity + 512, 512));
        let error = EmulatedDisk::new(&rt, data, ArmModel::default()).err();
        let len = capacity + 512;
        assert_eq!(error, Some(EmulatedError::TooLarge { len, capacity }));
    });
}

#[test]
fn a_cancelled_request_does_not_affect_other_requests() {
    run(|rt| async move {
        let (disk, _) = emulated(&rt, false);
        let abandoned = disk.read(0, BufMut::zeroed(512));
        let kept = disk.read(512, BufMut::zeroed(512));
        let (timed_out, kept) = join(rt.timeout(Duration::from_millis(1), abandoned), kept).await;
        assert!(timed_out.is_err() && kept.is_ok());
        assert_eq!(ms(&rt), 10);
        disk.read(0, BufMut::zeroed(512)).await.unwrap();
        assert_eq!(ms(&rt), 15);
    });
}

#[test]
fn the_model_is_dropped_with_the_device_even_if_busy() {
    run(|rt| async move {
        let log = Rc::new(RefCell::default());
        let arm = ArmModel {
            log: Rc::clone(&log),
            ..ArmModel::default()
        };
        let disk = EmulatedDisk::new(&rt, below(&rt, Duration::ZERO), arm).unwrap();
        let abandoned = rt.timeout(Duration::from_millis(1), disk.read(0, BufMut::zeroed(512)));
        assert!(abandoned.await.is_err());
        assert_eq!(Rc::strong_count(&log), 2);
        drop(disk);
        rt.yield_now().await;
        assert_eq!(Rc::strong_count(&log), 1);
    });
}

#[test]
fn a_named_drive_keeps_writes_volatile_only_with_its_write_cache() {
    run(|rt| async move {
        let volatile = |caches| {
            let spec = named("barracuda").unwrap();
            let options = DiskOptions {
                caches,
                ..DiskOptions::default()
            };
            let below = below(&rt, Duration::ZERO);
            let disk = EmulatedDisk::new(&rt, below, Drive::new(spec, options)).unwrap();
            disk.geometry().volatile
        };
        let choice = |immediate_report| {
            EnabledCaches::Explicit(CacheChoice {
                immediate_report,
                read_ahead: true,
            })
        };
        assert!(!volatile(EnabledCaches::Off) && !volatile(choice(false)));
        // The drive's own setting reports sequential writes at once.
        assert!(volatile(choice(true)) && volatile(EnabledCaches::Own));
    });
}

#[test]
fn random_reads_on_an_emulated_barracuda_take_a_seek_and_half_a_rotation() {
    run(|rt| async move {
        let drive = Drive::new(named("barracuda").unwrap(), DiskOptions::default());
        let data = Rc::new(RamDevice::new(2_000_000_000 / 4096 * 4096, 512));
        let disk = EmulatedDisk::new(&rt, data, drive).unwrap();
        let mut at = 1;
        for _ in 0..500 {
            at = at * 48_271 % 0x7fff_ffff;
            let block = at % (2_000_000_000 / 4096);
            disk.read(block * 4096, BufMut::zeroed(4096)).await.unwrap();
        }
        // Seagate's figures: 9 ms mean seek, 4.17 ms mean latency.
        let mean_us = rt.now().as_nanos() / 500 / 1000;
        assert!((11_000..16_000).contains(&mean_us), "{mean_us}");
    });
}
