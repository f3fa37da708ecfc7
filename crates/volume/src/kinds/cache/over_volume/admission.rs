//! Admission of writes to a cache over a volume that may be full.
//!
//! The cache could accept a write that the volume below has no space for, and then could never destage it. While the
//! volume below has ample free space, writes pass. When free space is short, all dirty data in the cache is assumed to
//! need space. A write to an unallocated range that would not fit waits until the cache is drained, so that the free
//! space is certain. The write fails if the free space is then still too small. Writes to allocated ranges and trims
//! always pass.
//!
//! The growth of the map below by destaged data is not known in advance. Acknowledged data that does not fit for this
//! reason stays in the cache, which retries until a client trims data.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    Buf, BufMut, DataLocation, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, IoFuture,
    ZeroedSpace,
};
use forebay_rt::Rt;

use crate::layer::Layer;

/// Bytes kept free for the map below, in addition to 1/[`MAP_PART`] of the data to be destaged.
const SPARE: u64 = 1 << 20;
/// See [`SPARE`].
const MAP_PART: u64 = 16;
/// Longest time that a write waits while the cache is drained but destages nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cache's device that accepts no more new data than the volume below has space for.
pub(super) struct AdmissionDevice {
    rt: Rt,
    above: Rc<dyn Layer>,
    below: Rc<dyn Layer>,
    device: Rc<dyn Device>,
    /// Bytes that may be written before the free space is read again.
    slack: Cell<u64>,
    /// Bytes of writes in progress, which the cache's dirty bytes may not include yet.
    under_way: Cell<u64>,
}

struct WriteInProgress<'a>(&'a Cell<u64>, u64);

impl<'a> WriteInProgress<'a> {
    fn new(bytes: &'a Cell<u64>, len: u64) -> WriteInProgress<'a> {
        bytes.set(bytes.get() + len);
        WriteInProgress(bytes, len)
    }
}

impl Drop for WriteInProgress<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

/// Returns the bytes that may be written to new places, given the free space below and the bytes of it that are already
/// claimed.
fn slack(room: u64, spoken_for: u64) -> u64 {
    room.saturating_sub(spoken_for + spoken_for / MAP_PART + SPARE)
}

impl AdmissionDevice {
    pub(super) fn new(rt: Rt, above: Rc<dyn Layer>, below: Rc<dyn Layer>) -> AdmissionDevice {
        AdmissionDevice {
            rt,
            device: above.device().expect("a cache is a block device"),
            above,
            below,
            slack: Cell::new(0),
            under_way: Cell::new(0),
        }
    }

    /// Returns true, and claims the space, if a write of `len` bytes fits into the known free space.
    fn take(&self, len: u64) -> bool {
        let left = self.slack.get().checked_sub(len);
        left.inspect(|left| self.slack.set(*left)).is_some()
    }

    /// Reads the free space again, and then does as `take`.
    fn look(&self, len: u64) -> bool {
        if let Some(room) = self.below.room() {
            let dirty = self.above.status().summary().dirty_bytes;
            self.slack.set(slack(room, dirty + self.under_way.get()));
            return self.take(len);
        }
        true
    }

    /// Returns the bytes that the cache has destaged so far.
    fn destaged(&self) -> u64 {
        self.above.status().summary().destaged_bytes
    }

    /// Returns true if all of a range is allocated.
    fn is_there(&self, range: Range<u64>) -> bool {
        self.above
            .place(range)
            .into_iter()
            .all(|extent| match extent.place {
                DataLocation::Home => {
                    let below = self.below.place(extent.range);
                    below
                        .iter()
                        .all(|extent| extent.place != DataLocation::Zero)
                }
                DataLocation::Zero => false,
                DataLocation::Log | DataLocation::Ram | DataLocation::Damaged => true,
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
        Err(DeviceError::io(DeviceOp::Write, range, full))
    }
}

impl Device for AdmissionDevice {
    fn geometry(&self) -> DeviceGeometry {
        self.device.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.device.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        let len = buf.len() as u64;
        Box::pin(async move {
            self.admit(at..at + len).await?;
            let _under_way = WriteInProgress::new(&self.under_way, len);
            self.device.write(at, buf, durability).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.device.flush()
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.device.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.device.write_zeroes(range, room)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use forebay_device::{LocatedExtent, RamDevice};
    use forebay_rt::{Executor, VirtualTime};

    use super::*;
    use crate::kinds::cache::SPEC;
    use crate::layer::{DrainFailure, LayerFuture};
    use crate::report::LayerStatus;

    const MIB: u64 = 1 << 20;

    /// A simulated layer. As a cache it destages 1 MiB per second while it is drained, up to a limit; as the volume
    /// below it has the given free space.
    struct SimulatedLayer {
        rt: Rt,
        dirty: Cell<u64>,
        destaged: Cell<u64>,
        let_home: u64,
        room: Option<u64>,
    }

    impl SimulatedLayer {
        fn new(rt: &Rt, dirty: u64, let_home: u64, room: Option<u64>) -> Rc<SimulatedLayer> {
            Rc::new(SimulatedLayer {
                rt: rt.clone(),
                dirty: Cell::new(dirty),
                destaged: Cell::new(0),
                let_home,
                room,
            })
        }
    }

    impl Layer for SimulatedLayer {
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

        fn status(&self) -> LayerStatus {
            let cache = forebay_dcd::DcdStatus {
                dirty_bytes: self.dirty.get(),
                destaged_bytes: self.destaged.get(),
                ..forebay_dcd::DcdStatus::default()
            };
            LayerStatus::new(&SPEC, cache)
        }

        fn place(&self, range: Range<u64>) -> Vec<LocatedExtent> {
            let place = DataLocation::Zero;
            vec![LocatedExtent { range, place }]
        }

        fn drain(&self) -> LayerFuture<'_, Result<(), DrainFailure>> {
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

        fn what_is_left(&self) -> Option<DrainFailure> {
            None
        }

        fn close(&self) -> LayerFuture<'_, Result<(), DeviceError>> {
            Box::pin(async { Ok(()) })
        }

        fn what_holds_up(&self) -> String {
            String::new()
        }
    }

    /// Submits a write that needs free space below. Returns true if it was admitted, and the seconds that it waited.
    /// The cache holds `dirty` MiB, of which `let_home` MiB can be destaged; the volume below always has 8 MiB free.
    fn admitted(dirty: u64, let_home: u64) -> (bool, u64) {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        executor.block_on(async move {
            let above = SimulatedLayer::new(&rt, dirty * MIB, let_home * MIB, None);
            let below = SimulatedLayer::new(&rt, 0, 0, Some(8 * MIB));
            let admission = AdmissionDevice::new(rt.clone(), above, below);
            let written = admission
                .write(0, BufMut::copy_of(&[1; 4096]).freeze(), Durability::Flush)
                .await;
            (written.is_ok(), rt.now().as_nanos() / 1_000_000_000)
        })
    }

    #[test]
    fn a_write_waits_while_the_cache_makes_destage_progress() {
        // The write is admitted when at most 6 MiB are left in the cache.
        let (taken, seconds) = admitted(1000, 1000);
        assert!(taken && (994..1100).contains(&seconds), "{seconds}");
        assert_eq!(admitted(2, 0), (true, 0));
    }

    #[test]
    fn a_write_is_refused_when_the_cache_stops_making_destage_progress() {
        let (taken, seconds) = admitted(1000, 500);
        assert!(!taken && (560..700).contains(&seconds), "{seconds}");
    }

    #[test]
    fn dirty_data_in_the_cache_reduces_the_free_space_of_the_lower_volume() {
        assert_eq!(slack(100 << 20, 0), 99 << 20);
        assert_eq!(slack(100 << 20, 32 << 20), (100 - 32 - 2 - 1) << 20);
        assert_eq!(slack(10 << 20, 32 << 20), 0);
    }
}
