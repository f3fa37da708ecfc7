//! Loss of a disk's volatile cache at failed requests.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, Device, DeviceOp, Durability};
use forebay_rng::Rng;
use forebay_rt::{Executor, VirtualTime};
use forebay_sim::disk::{DiskImage, DiskObserver, DiskRequest, SharedPower, SimDisk};

const BLOCK: u64 = 512;

/// Runs `each` with two disks that lose volatile data at failed flushes.
fn with_disks<F: Future<Output = ()> + 'static>(each: impl FnOnce([Rc<SimDisk>; 2]) -> F) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let (rt, power, rng) = (executor.rt(), SharedPower::new(None), Rc::new(Rng::new(1)));
    let disks = [0, 1].map(|_| {
        let disk = SimDisk::new(&rt, &power, &rng, DiskImage::new(1 << 20), BLOCK as u32);
        disk.forgetful.set(true);
        disk
    });
    executor.block_on(each(disks));
}

async fn write(disk: &SimDisk, at: u64, durability: Durability) -> bool {
    let ones = BufMut::copy_of(&[1; BLOCK as usize]).freeze();
    disk.write(at, ones, durability).await.is_ok()
}

fn holds(disk: &SimDisk, at: u64) -> bool {
    disk.now()[at as usize..(at + BLOCK) as usize] == [1; BLOCK as usize]
}

#[test]
fn a_failed_durable_write_loses_all_volatile_data() {
    with_disks(|[disk, _]| async move {
        assert!(write(&disk, 0, Durability::Flush).await);
        disk.flush().await.expect("flushes");
        assert!(write(&disk, BLOCK, Durability::Flush).await);
        disk.fail(|op, range| op == DeviceOp::Write && range.start == 2 * BLOCK);
        assert!(!write(&disk, 2 * BLOCK, Durability::Flush).await);
        assert!(holds(&disk, BLOCK), "no flush failed");
        assert!(!write(&disk, 2 * BLOCK, Durability::Fua).await);
        assert!(holds(&disk, 0) && !holds(&disk, BLOCK));
    });
}

#[test]
fn a_failed_flush_loses_volatile_data_of_all_disks_with_a_shared_cache() {
    with_disks(|[one, other]| async move {
        SimDisk::share_cache(&[&one, &other]);
        for disk in [&one, &other] {
            assert!(write(disk, 0, Durability::Flush).await);
        }
        one.fail(|op, _| op == DeviceOp::Flush);
        one.flush().await.expect_err("fails");
        assert!(!holds(&one, 0) && !holds(&other, 0));
        other.flush().await.expect("makes durable what is left");
    });
}

/// Records the order of a loss and of the report of its cause.
#[derive(Default)]
struct LossObserver {
    lost: Cell<bool>,
    failed_after_loss: Cell<bool>,
}

impl DiskObserver for LossObserver {
    fn issued(&self, _: &DiskRequest) {}

    fn ended(&self, _: &DiskRequest, failed: bool) {
        self.failed_after_loss.set(failed && self.lost.get());
    }

    fn lost_writes(&self) {
        assert!(!self.failed_after_loss.get());
        self.lost.set(true);
    }
}

#[test]
fn a_loss_is_observed_no_later_than_the_failure_that_caused_it_is_reported() {
    with_disks(|[disk, _]| async move {
        let observer = Rc::new(LossObserver::default());
        disk.observer
            .replace(Some(Rc::clone(&observer) as Rc<dyn DiskObserver>));
        disk.faults.borrow_mut().fua_reported_late = true;
        disk.slowest.set(Duration::from_millis(1));
        assert!(write(&disk, 0, Durability::Flush).await);
        assert!(!observer.lost.get());
        disk.fail(|op, range| op == DeviceOp::Write && range.start == BLOCK);
        assert!(!write(&disk, BLOCK, Durability::Fua).await);
        assert!(observer.lost.get() && observer.failed_after_loss.get() && !holds(&disk, 0));
    });
}
