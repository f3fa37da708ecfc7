//! What may be written to a cache over a volume that may be full.
//!
//! The cache could take it, and then not bring it home. So as long as there is plenty of room below, writes pass; where
//! there is little, what the cache holds counts as if all of it needed room. A write to where nothing is yet that
//! would not fit is kept until the cache is drained, so that it is known how much room there is, and refused if there
//! is none then. Writes to where something is go on, and so do trims.
//!
//! How much the map below grows by what comes home is not known beforehand. What was acknowledged and does not fit
//! for that stays in the cache, which tries again until somebody trims.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut, Device, DeviceError, Durability, Geometry, IoFuture, Op, Room};
use forebay_rt::Rt;

use crate::Status;
use crate::layer::{Layer, Place};

/// Kept free for the map below, in bytes, beside one in [`MAP_PART`] of what is to come home.
const SPARE: u64 = 1 << 20;
/// See [`SPARE`].
const MAP_PART: u64 = 16;
/// The longest that a write waits for a cache that is drained and brings nothing home.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cache's device, to which no more is written than there is room for below.
pub(super) struct Admission {
    rt: Rt,
    above: Rc<dyn Layer>,
    below: Rc<dyn Layer>,
    device: Rc<dyn Device>,
    /// So many bytes may be written before it is looked again.
    slack: Cell<u64>,
    /// Bytes of writes that may not be counted as the cache's yet.
    under_way: Cell<u64>,
}

struct UnderWay<'a>(&'a Cell<u64>, u64);

impl<'a> UnderWay<'a> {
    fn new(bytes: &'a Cell<u64>, len: u64) -> UnderWay<'a> {
        bytes.set(bytes.get() + len);
        UnderWay(bytes, len)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

/// How much may be written to new places, with so much room below of which so much is spoken for.
fn slack(room: u64, spoken_for: u64) -> u64 {
    room.saturating_sub(spoken_for + spoken_for / MAP_PART + SPARE)
}

impl Admission {
    pub(super) fn new(rt: Rt, above: Rc<dyn Layer>, below: Rc<dyn Layer>) -> Admission {
        Admission {
            rt,
            device: above.device().expect("a cache is a block device"),
            above,
            below,
            slack: Cell::new(0),
            under_way: Cell::new(0),
        }
    }

    /// True if a write of `len` bytes fits into what is known to be free.
    fn take(&self, len: u64) -> bool {
        let left = self.slack.get().checked_sub(len);
        left.inspect(|left| self.slack.set(*left)).is_some()
    }

    /// The same, having looked.
    fn look(&self, len: u64) -> bool {
        if let Some(room) = self.below.room() {
            let dirty = self.above.status().dirty_bytes();
            self.slack.set(slack(room, dirty + self.under_way.get()));
            return self.take(len);
        }
        true
    }

    /// Bytes that the cache has brought home so far.
    fn destaged(&self) -> u64 {
        match self.above.status() {
            Status::Cache(status) => status.cache.destaged_bytes,
            Status::Space(_) | Status::Files(_) => 0,
        }
    }

    /// Whether there is something everywhere in a range.
    fn is_there(&self, range: Range<u64>) -> bool {
        self.above
            .place(range)
            .into_iter()
            .all(|extent| match extent.place {
                Place::Home => {
                    let below = self.below.place(extent.range);
                    below.iter().all(|extent| extent.place != Place::Zero)
                }
                Place::Zero => false,
                Place::Log | Place::Ram | Place::Damaged => true,
            })
    }

    async fn admit(&self, range: Range<u64>) -> Result<(), DeviceError> {
        const ENOSPC: i32 = 28;
        let len = range.end - range.start;
        if self.take(len) || self.look(len) || self.is_there(range.clone()) {
            return Ok(());
        }
        loop {
            let before = self.destaged();
            let drained = self.rt.timeout(PATIENCE, self.above.drain()).await;
            if self.look(len) {
                return Ok(());
            }
            if drained.is_ok() || self.destaged() == before {
                break;
            }
        }
        let full = std::io::Error::from_raw_os_error(ENOSPC);
        Err(DeviceError::io(Op::Write, range, full))
    }
}

impl Device for Admission {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.device.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        let len = buf.len() as u64;
        Box::pin(async move {
            self.admit(at..at + len).await?;
            let _under_way = UnderWay::new(&self.under_way, len);
            self.device.write(at, buf, durability).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.device.flush()
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.device.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: Room) -> IoFuture<'_, ()> {
        self.device.write_zeroes(range, room)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use forebay_device::RamDevice;
    use forebay_rt::{Executor, VirtualTime};

    use super::*;
    use crate::layer::{LayerFuture, NotDrained, PlaceExtent};
    use crate::status::CacheStatus;

    const MIB: u64 = 1 << 20;

    /// A cache that brings home 1 MiB a second while it is drained, and no more than it is let; or a volume below one,
    /// with room for so much.
    struct Played {
        rt: Rt,
        dirty: Cell<u64>,
        destaged: Cell<u64>,
        let_home: u64,
        room: Option<u64>,
    }

    impl Played {
        fn new(rt: &Rt, dirty: u64, let_home: u64, room: Option<u64>) -> Rc<Played> {
            Rc::new(Played {
                rt: rt.clone(),
                dirty: Cell::new(dirty),
                destaged: Cell::new(0),
                let_home,
                room,
            })
        }
    }

    impl Layer for Played {
        fn name(&self) -> String {
            String::new()
        }

        fn id(&self) -> String {
            String::new()
        }

        fn device(&self) -> Option<Rc<dyn Device>> {
            Some(Rc::new(RamDevice::new(MIB, 512)))
        }

        fn room(&self) -> Option<u64> {
            self.room
        }

        fn status(&self) -> Status {
            let cache = forebay_dcd::Status {
                dirty_bytes: self.dirty.get(),
                destaged_bytes: self.destaged.get(),
                ..forebay_dcd::Status::default()
            };
            Status::Cache(CacheStatus { cache, below: None })
        }

        fn place(&self, range: Range<u64>) -> Vec<PlaceExtent> {
            let place = Place::Zero;
            vec![PlaceExtent { range, place }]
        }

        fn drain(&self) -> LayerFuture<'_, Result<(), NotDrained>> {
            Box::pin(async {
                while self.dirty.get() > 0 {
                    self.rt.sleep(Duration::from_secs(1)).await;
                    if self.destaged.get() >= self.let_home {
                        return pending().await;
                    }
                    self.dirty.set(self.dirty.get() - MIB);
                    self.destaged.set(self.destaged.get() + MIB);
                }
                Ok(())
            })
        }

        fn what_is_left(&self) -> Option<NotDrained> {
            None
        }

        fn close(&self) -> LayerFuture<'_, Result<(), DeviceError>> {
            Box::pin(async { Ok(()) })
        }

        fn what_holds_up(&self) -> String {
            String::new()
        }
    }

    /// Whether a write was taken that needs to know how much room is left, and after how long that was known, in
    /// seconds; of so many MiB in the cache, so many can be brought home, to where there is always room for 8.
    fn admitted(dirty: u64, let_home: u64) -> (bool, u64) {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        executor.block_on(async move {
            let above = Played::new(&rt, dirty * MIB, let_home * MIB, None);
            let below = Played::new(&rt, 0, 0, Some(8 * MIB));
            let admission = Admission::new(rt.clone(), above, below);
            let written = admission
                .write(0, BufMut::copy_of(&[1; 4096]).freeze(), Durability::Flush)
                .await;
            (written.is_ok(), rt.now().as_nanos() / 1_000_000_000)
        })
    }

    #[test]
    fn a_write_waits_for_as_long_as_the_cache_brings_something_home() {
        // Till no more than 6 MiB are left.
        let (taken, seconds) = admitted(1000, 1000);
        assert!(taken && (994..1100).contains(&seconds), "{seconds}");
        assert_eq!(admitted(2, 0), (true, 0));
    }

    #[test]
    fn a_write_is_refused_when_the_cache_brings_nothing_home_any_more() {
        let (taken, seconds) = admitted(1000, 500);
        assert!(!taken && (560..700).contains(&seconds), "{seconds}");
    }

    #[test]
    fn what_waits_in_the_cache_counts_against_the_room_below() {
        assert_eq!(slack(100 << 20, 0), 99 << 20);
        assert_eq!(slack(100 << 20, 32 << 20), (100 - 32 - 2 - 1) << 20);
        assert_eq!(slack(10 << 20, 32 << 20), 0);
    }
}
