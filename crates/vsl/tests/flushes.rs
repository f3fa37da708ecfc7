//! The engine's assumptions about a flush of its device.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture, RamDevice,
    ZeroedSpace,
};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, LINE_BYTES, LINE_SECTORS, Sector};
use forebay_vsl::{
    Batch, PlacementKind, SegmentLayout, SpaceSettings, SpaceSpec, VolumeId, create, open,
};

const SEGMENT: u64 = 128 << 10;
const SEGMENTS: u64 = 64;

/// A device whose flushes take time and are counted while in progress. The flush with a given number fails, and all
/// writes since the last successful flush are then lost.
struct SlowFlushes {
    rt: Rt,
    below: RamDevice,
    flushing: Cell<u32>,
    most: Cell<u32>,
    flushes: Cell<u32>,
    fails: Cell<Option<u32>>,
    failed: Cell<bool>,
    /// Old contents of the ranges written since the last flush, in order.
    before: RefCell<Vec<(u64, Vec<u8>)>>,
}

impl SlowFlushes {
    /// Loses all data that was not flushed, as a device can after a failed flush or a power failure.
    fn forget(&self) {
        for (at, bytes) in self.before.take().into_iter().rev() {
            self.below.poke(at, &bytes);
        }
    }
}

impl Device for SlowFlushes {
    fn geometry(&self) -> DeviceGeometry {
        self.below.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.below.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        let mut bytes = vec![0; buf.len()];
        self.below.peek(at, &mut bytes);
        if durability == Durability::Flush {
            self.before.borrow_mut().push((at, bytes));
        }
        self.below.write(at, buf, durability)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let covered = self.before.borrow().len();
            let number = self.flushes.get() + 1;
            self.flushes.set(number);
            self.flushing.set(self.flushing.get() + 1);
            self.most.set(self.most.get().max(self.flushing.get()));
            self.rt.sleep(Duration::from_millis(3)).await;
            self.flushing.set(self.flushing.get() - 1);
            if self.fails.get() == Some(number) {
                self.failed.set(true);
                self.forget();
                let (op, cause) = (DeviceOp::Flush, "as the test wants".into());
                return Err(DeviceError::Failed { op, cause });
            }
            self.before.borrow_mut().drain(..covered);
            Ok(())
        })
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.below.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.below.write_zeroes(range, room)
    }
}

/// Returns a page that contains its number and version.
fn page_of(page: u64, version: u64) -> Buf {
    let mut data = BufMut::zeroed(LINE_BYTES as usize);
    for chunk in data.chunks_exact_mut(16) {
        chunk[..8].copy_from_slice(&page.to_le_bytes());
        chunk[8..].copy_from_slice(&version.to_le_bytes());
    }
    data.freeze()
}

/// Updates pages that are written in place, with constant flushes. After `later` more flushes, the last flush fails and
/// loses writes. Then the power fails. Returns the bytes written in place, the maximum of concurrent flushes, and the
/// number of pages that are older than the last successful flush.
fn flushed_while_written_in_place(later: Option<u32>) -> (u64, u32, u32) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    let slow = Rc::new(SlowFlushes {
        rt: rt.clone(),
        below: RamDevice::new((1 << 20) + SEGMENTS * SEGMENT, 4096),
        flushing: Cell::new(0),
        most: Cell::new(0),
        flushes: Cell::new(0),
        fails: Cell::new(None),
        failed: Cell::new(false),
        before: RefCell::default(),
    });
    let device: Rc<dyn Device> = Rc::clone(&slow) as Rc<dyn Device>;
    let layout =
        SegmentLayout::for_device(&device.geometry(), Some(ByteLen(SEGMENT))).expect("fits");
    let making = SpaceSpec {
        volume: VolumeId([7; 16]),
        layout,
        space_sectors: 1 << 30,
        placement: PlacementKind::Overwrite,
        auto: false,
        page_sectors: 8,
        disk: None,
    };
    let work = async move {
        create(rt.clone(), Rc::clone(&device), &making)
            .await
            .expect("made");
        let options = SpaceSettings {
            home_bytes: 64 << 10,
            ..SpaceSettings::default()
        };
        let opened = open(rt.clone(), Rc::clone(&device), options, false).await;
        let (space, workers, _) = opened.expect("opened");
        let pages = space.capacity().mappable / 2 / LINE_BYTES;
        let batch = |page: u64, version| {
            Batch::of_write(Sector(page * LINE_SECTORS), page_of(page, version))
        };
        for page in 0..pages {
            let filled = space.apply(&batch(page, 0), Durability::Flush).await;
            filled.expect("there is room");
        }
        space.flush().await.expect("flushed");
        slow.fails.set(later.map(|more| slow.flushes.get() + more));
        let (mut written, mut flushed) = (vec![0; pages as usize], vec![0; pages as usize]);
        for n in 1..4 * pages {
            let page = n * 7 % pages;
            let applied = space.apply(&batch(page, n), Durability::Flush).await;
            applied.expect("a flush that failed is tried again");
            written[page as usize] = n;
            if n % 3 == 0 {
                space.flush().await.expect("flushed in the end");
                flushed.clone_from(&written);
            }
        }
        assert!(later.is_none() || slow.failed.get(), "no flush failed");
        let in_place = space.stats().bytes_in_place;
        let most = slow.most.get();
        drop((space, workers));
        slow.forget();
        let opened = open(rt, device, options, false).await;
        let (space, _workers, _) = opened.expect("opened again");
        let mut lost = 0;
        for page in 0..pages {
            let buf = BufMut::zeroed(LINE_BYTES as usize);
            let read = space
                .read(Sector(page * LINE_SECTORS), buf)
                .await
                .expect("read");
            let version = u64::from_le_bytes(read[8..16].try_into().expect("eight"));
            assert_eq!(read[..], page_of(page, version)[..], "page {page}");
            lost += u32::from(version < flushed[page as usize]);
        }
        (in_place, most, lost)
    };
    executor.block_on(work)
}

#[test]
fn flushes_of_a_device_do_not_overlap() {
    let (in_place, most, lost) = flushed_while_written_in_place(None);
    assert!(
        in_place > 0 && most == 1 && lost == 0,
        "{in_place} {most} {lost}"
    );
}

#[test]
fn data_lost_by_a_failed_flush_is_rewritten_before_a_flush_succeeds() {
    for later in 1..40 {
        let (_, most, lost) = flushed_while_written_in_place(Some(later));
        assert_eq!((most, lost), (1, 0), "{later}");
    }
}
