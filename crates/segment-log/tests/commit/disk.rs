//! A disk with a volatile cache that fails on command, and forgets its cache when a flush fails.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::time::Duration;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture, ZeroedSpace,
};
use forebay_rt::Rt;

const BLOCK: u32 = 512;
const LEN: usize = 32 << 20;

/// The disk. After a failed flush or a failed durable write, it drops every write that is not durable: completed
/// writes, and those in flight, which still complete without an error.
pub(crate) struct ForgetfulDisk {
    rt: Rt,
    pub(crate) latency: Cell<Duration>,
    pub(crate) fails_writes: Cell<bool>,
    /// Writes that touch these bytes fail.
    pub(crate) bad: RefCell<Option<Range<u64>>>,
    pub(crate) fails_flushes: Cell<bool>,
    /// The delay between the failure of a durable write and its report.
    pub(crate) late: Cell<Duration>,
    /// The number of requests, including failed requests.
    pub(crate) writes: Cell<u64>,
    pub(crate) flushes: Cell<u64>,
    /// Content without the cache.
    stable: RefCell<Vec<u8>>,
    /// Completed writes in the cache.
    cached: RefCell<Vec<(u64, Buf)>>,
    forgotten: Cell<u64>,
    flushing: Cell<bool>,
}

impl ForgetfulDisk {
    pub(crate) fn new(rt: &Rt) -> ForgetfulDisk {
        ForgetfulDisk {
            rt: rt.clone(),
            latency: Cell::new(Duration::from_millis(1)),
            fails_writes: Cell::new(false),
            bad: RefCell::default(),
            fails_flushes: Cell::new(false),
            late: Cell::default(),
            writes: Cell::new(0),
            flushes: Cell::new(0),
            stable: RefCell::new(vec![0; LEN]),
            cached: RefCell::default(),
            forgotten: Cell::new(0),
            flushing: Cell::new(false),
        }
    }

    /// Returns the bytes that survive a power failure in the worst case.
    pub(crate) fn stable(&self, range: Range<u64>) -> Vec<u8> {
        self.stable.borrow()[range.start as usize..range.end as usize].to_vec()
    }

    fn forget(&self) {
        self.cached.borrow_mut().clear();
        self.forgotten.set(self.forgotten.get() + 1);
    }

    fn error(op: DeviceOp, range: Range<u64>) -> DeviceError {
        DeviceError::io(op, range, std::io::Error::from_raw_os_error(5))
    }
}

fn store(image: &RefCell<Vec<u8>>, at: u64, bytes: &[u8]) {
    image.borrow_mut()[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
}

impl Device for ForgetfulDisk {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry {
            len: LEN as u64,
            block_size: BLOCK,
            physical_block_size: BLOCK,
            preferred_io: 4096,
            volatile: true,
            discard_granularity: 0,
            zeroes_by_unmapping: false,
        }
    }

    /// Group commit never reads.
    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        let range = at..at + buf.len() as u64;
        Box::pin(std::future::ready(Err(ForgetfulDisk::error(
            DeviceOp::Read,
            range,
        ))))
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.writes.set(self.writes.get() + 1);
            let forgotten = self.forgotten.get();
            self.rt.sleep(self.latency.get()).await;
            let range = at..at + buf.len() as u64;
            let touches = |bad: &Range<u64>| bad.start < range.end && range.start < bad.end;
            if self.fails_writes.get() || self.bad.borrow().as_ref().is_some_and(touches) {
                return Err(ForgetfulDisk::error(DeviceOp::Write, range));
            }
            if durability == Durability::Fua {
                if self.fails_flushes.get() {
                    self.forget();
                    self.rt.sleep(self.late.get()).await;
                    return Err(ForgetfulDisk::error(DeviceOp::Write, range));
                }
                store(&self.stable, at, &buf);
            } else if forgotten == self.forgotten.get() {
                self.cached.borrow_mut().push((at, buf));
            }
            Ok(())
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            assert!(!self.flushing.replace(true), "flushes overlap");
            self.flushes.set(self.flushes.get() + 1);
            let covered = self.cached.borrow().len();
            self.rt.sleep(self.latency.get()).await;
            self.flushing.set(false);
            if self.fails_flushes.get() {
                self.forget();
                return Err(ForgetfulDisk::error(DeviceOp::Flush, 0..0));
            }
            // A failed durable write drops the cache, so fewer writes may be left.
            let mut cached = self.cached.borrow_mut();
            let covered = covered.min(cached.len());
            for (at, bytes) in cached.drain(..covered) {
                store(&self.stable, at, &bytes);
            }
            Ok(())
        })
    }

    fn discard(&self, _: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn write_zeroes(&self, range: Range<u64>, _: ZeroedSpace) -> IoFuture<'_, ()> {
        let len = (range.end - range.start) as usize;
        self.write(range.start, BufMut::zeroed(len).freeze(), Durability::Flush)
    }
}
