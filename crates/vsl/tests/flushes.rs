//! What the engine takes a flush of its device for.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, Durability, Geometry, IoFuture, Op, RamDevice, Room,
};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, LINE_BYTES, LINE_SECTORS, Sector};
use forebay_vsl::{Batch, Kind, Layout, Making, Options, VolumeId, create, open};

const SEGMENT: u64 = 128 << 10;
const SEGMENTS: u64 = 64;

/// Takes a while to flush, and counts how many flushes are under way; the one with this number fails.
struct Slow {
    rt: Rt,
    below: RamDevice,
    flushing: Cell<u32>,
    most: Cell<u32>,
    flushes: Cell<u32>,
    fails: Cell<Option<u32>>,
    failed: Cell<bool>,
}

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.below.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        self.below.write(at, buf, durability)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            assert!(!self.failed.get(), "flushed after a flush had failed");
            let number = self.flushes.get() + 1;
            self.flushes.set(number);
            self.flushing.set(self.flushing.get() + 1);
            self.most.set(self.most.get().max(self.flushing.get()));
            self.rt.sleep(Duration::from_millis(3)).await;
            self.flushing.set(self.flushing.get() - 1);
            if self.fails.get() == Some(number) {
                self.failed.set(true);
                let (op, cause) = (Op::Flush, "as the test wants".into());
                return Err(DeviceError::Failed { op, cause });
            }
            Ok(())
        })
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.below.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: Room) -> IoFuture<'_, ()> {
        self.below.write_zeroes(range, room)
    }
}

/// Updates pages that are kept in place, and flushes all the time. Of `later` more flushes from then on, the last fails.
/// Says what was brought home, the most flushes at a time, and how many calls to flush succeeded after one had failed.
fn flushed_while_brought_home(later: Option<u32>) -> (u64, u32, u32) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    let slow = Rc::new(Slow {
        rt: rt.clone(),
        below: RamDevice::new((1 << 20) + SEGMENTS * SEGMENT, 4096),
        flushing: Cell::new(0),
        most: Cell::new(0),
        flushes: Cell::new(0),
        fails: Cell::new(None),
        failed: Cell::new(false),
    });
    let device: Rc<dyn Device> = Rc::clone(&slow) as Rc<dyn Device>;
    let layout = Layout::for_device(&device.geometry(), Some(ByteLen(SEGMENT))).expect("fits");
    let making = Making {
        volume: VolumeId([7; 16]),
        layout,
        space_sectors: 1 << 30,
        placement: Kind::Overwrite,
        page_sectors: 8,
        disk: None,
    };
    let work = async move {
        create(rt.clone(), Rc::clone(&device), &making)
            .await
            .expect("made");
        let options = Options {
            home_bytes: 64 << 10,
            ..Options::default()
        };
        let opened = open(rt.clone(), device, options, false).await;
        let (space, _workers, _) = opened.expect("taken up");
        let pages = space.capacity().mappable / 2 / LINE_BYTES;
        let data: Buf = BufMut::zeroed(LINE_BYTES as usize).freeze();
        let batch = |page: u64| Batch::of_write(Sector(page * LINE_SECTORS), data.clone());
        for page in 0..pages {
            let filled = space.apply(&batch(page), Durability::Flush).await;
            filled.expect("there is room");
        }
        space.flush().await.expect("flushed");
        slow.fails.set(later.map(|more| slow.flushes.get() + more));
        let mut lied = 0;
        for n in 0..4 * pages {
            let page = n * 7 % pages;
            let applied = space.apply(&batch(page), Durability::Flush).await;
            let flushed = match n % 3 {
                0 => space.flush().await,
                _ => Ok(()),
            };
            let failed = slow.failed.get();
            lied += u32::from(failed && n % 3 == 0 && flushed.is_ok());
            assert!(failed || applied.is_ok() && flushed.is_ok(), "{n}");
        }
        (space.stats().bytes_in_place, slow.most.get(), lied)
    };
    executor.block_on(work)
}

#[test]
fn flushes_of_the_device_do_not_overlap() {
    let (home, most, _) = flushed_while_brought_home(None);
    assert!(home > 0 && most == 1, "{home} {most}");
}

#[test]
fn a_flush_that_fails_fails_all_that_come_after_it_whoever_it_was_for() {
    for later in 1..40 {
        let (_, most, lied) = flushed_while_brought_home(Some(later));
        assert_eq!((most, lied), (1, 0), "{later}");
    }
}
