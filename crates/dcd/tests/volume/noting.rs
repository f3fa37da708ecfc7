//! The tasks of an idle volume sleep, including the noter, which records flushes in the superblock.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_dcd::AttachOptions;
use forebay_device::{BufMut, Device, Durability};
use forebay_rt::{Driver, DriverTurn, Instant, Unpark, VirtualTime, WaitLimit};
use forebay_sim::disk::DiskImage;
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{CacheTestbed, DiskBytes, checked};
use forebay_sim_targets::cache::volume::medium;

/// A clock that counts its jumps.
#[derive(Default)]
struct JumpCountingClock {
    below: VirtualTime,
    jumps: Cell<u64>,
}

impl Driver for JumpCountingClock {
    fn now(&self) -> Instant {
        self.below.now()
    }

    fn turn(&self, wait: WaitLimit) -> DriverTurn {
        let jumps = matches!(wait, WaitLimit::Until(_));
        self.jumps.set(self.jumps.get() + u64::from(jumps));
        self.below.turn(wait)
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        self.below.unparker()
    }
}

/// After a flush, and after an unflushed write that was destaged.
#[test]
fn an_idle_volume_wakes_fewer_than_five_times_an_hour() {
    let clock = Rc::new(JumpCountingClock::default());
    let driver = Rc::clone(&clock) as Rc<dyn Driver>;
    let images = DiskBytes::fresh(4 << 20);
    let disks = medium(&DiskImage::of(&images.log), &DiskImage::of(&images.data));
    let scenario = CacheTestbed::new(1, None, &disks, 512, driver);
    let rt = scenario.rt.clone();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        let device = checked(&volume);
        for (n, flush) in [(0, true), (1, false), (2, true), (3, false)] {
            let bytes = BufMut::copy_of(&stamp(1, n * 4096, 4096)).freeze();
            let written = device.write(n * 4096, bytes, Durability::Flush).await;
            written.expect("written");
            if flush {
                device.flush().await.expect("flushed");
            }
            rt.sleep(Duration::from_secs(60)).await;
            clock.jumps.take();
            rt.sleep(Duration::from_secs(3600)).await;
            let wakes = clock.jumps.take();
            assert!(wakes < 5, "{wakes} wakes in an hour");
        }
    });
}
