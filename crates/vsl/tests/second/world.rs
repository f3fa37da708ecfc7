//! A device in memory that takes time and fails on demand, and a volume on it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, DeviceOp, Durability, RamDevice, Tap, TapHooks, TapRequest,
};
use forebay_rt::{Driver, Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, LINE_BYTES, LINE_SECTORS, SECTOR_BYTES, Sector};
use forebay_vsl::{
    Batch, PlacementKind, SectorLocation, SegmentLayout, Space, SpaceError, SpaceRecovery,
    SpaceSettings, SpaceSpec, SpaceWorkers, VolumeId, create, open,
};

/// Sectors of the space.
pub(crate) const SECTORS: u64 = 1 << 50;
/// Maximum time of a request to a working device.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// The shape of a device, and the placement of the volume on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestbedShape {
    pub(crate) segments: u64,
    /// Bytes of a segment.
    pub(crate) segment: u64,
    pub(crate) kind: PlacementKind,
}

/// Byte offset of the first segment on the device.
const SEGMENTS_AT: u64 = 1 << 20;

/// Faults and delays of a device, and counts of its requests.
pub(crate) struct TestbedFaults {
    rt: Rt,
    /// Time of each request, in addition to one nanosecond for each byte.
    pub(crate) delay: Cell<Duration>,
    pub(crate) reads_fail: Cell<bool>,
    /// Writes and flushes fail.
    pub(crate) writes_fail: Cell<bool>,
    pub(crate) flushes_fail: Cell<bool>,
    /// Writes before the first segment fail.
    pub(crate) superblocks_fail: Cell<bool>,
    /// Writes before the first segment, including failed writes.
    pub(crate) superblocks: Cell<u64>,
    /// The first request of this kind that covers this byte waits until the cell is cleared.
    pub(crate) held: Cell<Option<(DeviceOp, u64)>>,
    /// Number of requests that wait for this.
    pub(crate) holding: Cell<u64>,
    /// Number of writes that the device accepts before its power fails. No later request ends.
    pub(crate) writes_left: Cell<Option<u64>>,
    /// Reads that cover this byte are counted in `watched`.
    pub(crate) watch: Cell<Option<u64>>,
    pub(crate) watched: Cell<u64>,
    /// Bytes by which the device reports a shorter length.
    pub(crate) shorter: Cell<u64>,
    pub(crate) failed: Cell<u64>,
    pub(crate) reads: Cell<u64>,
    pub(crate) bytes_read: Cell<u64>,
    /// Bytes of reads in progress, and their maximum.
    reading: Cell<u64>,
    pub(crate) most_reading: Cell<u64>,
}

pub(crate) fn add(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}

impl TestbedFaults {
    fn new(rt: Rt) -> TestbedFaults {
        TestbedFaults {
            rt,
            delay: Cell::default(),
            reads_fail: Cell::default(),
            writes_fail: Cell::default(),
            flushes_fail: Cell::default(),
            superblocks_fail: Cell::default(),
            superblocks: Cell::default(),
            held: Cell::default(),
            holding: Cell::default(),
            writes_left: Cell::default(),
            watch: Cell::default(),
            watched: Cell::default(),
            shorter: Cell::default(),
            failed: Cell::default(),
            reads: Cell::default(),
            bytes_read: Cell::default(),
            reading: Cell::default(),
            most_reading: Cell::default(),
        }
    }

    fn count_read(&self, at: u64, len: u64) {
        add(&self.reads, 1);
        add(&self.bytes_read, len);
        add(&self.reading, len);
        self.most_reading
            .set(self.most_reading.get().max(self.reading.get()));
        let covers = self
            .watch
            .get()
            .is_some_and(|byte| (at..at + len).contains(&byte));
        add(&self.watched, covers.into());
    }

    /// Counts a write. Does not return if the power has failed.
    async fn while_power_lasts(&self, op: DeviceOp) {
        let left = self.writes_left.get();
        if left == Some(0) {
            std::future::pending::<()>().await;
        }
        if op == DeviceOp::Write {
            self.writes_left.set(left.map(|left| left - 1));
        }
    }

    fn fails(&self, op: DeviceOp, at: u64) -> bool {
        match op {
            DeviceOp::Read => self.reads_fail.get(),
            DeviceOp::Write if at < SEGMENTS_AT && self.superblocks_fail.get() => true,
            DeviceOp::Write => self.writes_fail.get(),
            DeviceOp::Flush => self.writes_fail.get() || self.flushes_fail.get(),
            _ => false,
        }
    }
}

impl TapHooks for TestbedFaults {
    fn refreshed(&self, len: u64) -> u64 {
        len - self.shorter.get()
    }

    async fn before(&self, asked: &TapRequest) -> Result<(), DeviceError> {
        let (op, range) = (asked.op(), asked.range());
        let len = range.end - range.start;
        if op == DeviceOp::Read {
            self.count_read(range.start, len);
        }
        if op == DeviceOp::Write && range.start < SEGMENTS_AT {
            add(&self.superblocks, 1);
        }
        self.while_power_lasts(op).await;
        let is_held = || {
            let held = self.held.get();
            held.is_some_and(|(what, byte)| what == op && range.contains(&byte))
        };
        if self.holding.get() == 0 && is_held() {
            add(&self.holding, 1);
            while is_held() {
                self.rt.sleep(Duration::from_millis(10)).await;
            }
            self.holding.set(self.holding.get() - 1);
        }
        if !self.delay.get().is_zero() {
            self.rt
                .sleep(self.delay.get() + Duration::from_nanos(len))
                .await;
        }
        if self.fails(op, range.start) {
            add(&self.failed, 1);
            if op == DeviceOp::Read {
                self.reading.set(self.reading.get() - len);
            }
            return Err(DeviceError::Failed {
                op,
                cause: "for a while".into(),
            });
        }
        Ok(())
    }

    async fn after(&self, asked: &TapRequest) -> Result<(), DeviceError> {
        if let TapRequest::Read(range) = asked {
            self.reading
                .set(self.reading.get() - (range.end - range.start));
        }
        Ok(())
    }
}

/// A device with faults, and the runtime of the tests on it.
#[derive(Clone)]
pub(crate) struct SpaceTestbed {
    pub(crate) rt: Rt,
    pub(crate) device: Rc<Tap<RamDevice, TestbedFaults>>,
    pub(crate) shape: TestbedShape,
}

/// Runs a test on a new volume of this shape. Requests take 50 µs and a nanosecond for each byte.
pub(crate) fn on_a_volume<T: 'static>(
    shape: TestbedShape,
    test: impl AsyncFnOnce(SpaceTestbed) -> T + 'static,
) -> T {
    on_a_device(shape, async move |world| {
        world.device.delay.set(Duration::from_micros(50));
        world.create().await;
        test(world).await
    })
}

/// Runs a test on a device of this shape that contains zeroes and takes no time.
pub(crate) fn on_a_device<T: 'static>(
    shape: TestbedShape,
    test: impl AsyncFnOnce(SpaceTestbed) -> T + 'static,
) -> T {
    on_a_clock(Rc::new(VirtualTime::new()), shape, test)
}

/// Runs a test on a device of this shape with the given clock.
pub(crate) fn on_a_clock<T: 'static>(
    clock: Rc<dyn Driver>,
    shape: TestbedShape,
    test: impl AsyncFnOnce(SpaceTestbed) -> T + 'static,
) -> T {
    let executor = Executor::new(clock);
    let rt = executor.rt();
    let below = RamDevice::new(SEGMENTS_AT + shape.segments * shape.segment, 4096);
    let device = Rc::new(Tap::new(below, TestbedFaults::new(rt.clone())));
    executor.block_on(test(SpaceTestbed { rt, device, shape }))
}

impl SpaceTestbed {
    /// Returns all bytes of the device.
    pub(crate) fn image(&self) -> Vec<u8> {
        let mut image = vec![0; self.device.geometry().len as usize];
        self.device.below.peek(0, &mut image);
        image
    }

    pub(crate) fn below(&self) -> Rc<dyn Device> {
        Rc::clone(&self.device) as Rc<dyn Device>
    }

    pub(crate) async fn create(&self) {
        let layout =
            SegmentLayout::for_device(&self.device.geometry(), Some(ByteLen(self.shape.segment)));
        let making = SpaceSpec {
            volume: VolumeId([7; 16]),
            layout: layout.expect("fits"),
            space_sectors: SECTORS,
            placement: self.shape.kind,
            auto: false,
            page_sectors: 8,
            disk: None,
        };
        create(self.rt.clone(), self.below(), &making)
            .await
            .expect("made");
    }

    /// Opens the volume, and compares its counts with a walk over the map.
    pub(crate) async fn open(&self, options: SpaceSettings) -> OpenSpace {
        let volume = self.open_damaged(options).await;
        volume.audit().await;
        volume
    }

    /// Opens a volume with a part of the map unreadable.
    pub(crate) async fn open_damaged(&self, options: SpaceSettings) -> OpenSpace {
        let opened = self.rt.timeout(
            600 * SOON,
            Box::pin(open(self.rt.clone(), self.below(), options, false)),
        );
        let opened = opened.await.expect("opening ends");
        let (space, workers, recovery) = opened.expect("opened");
        OpenSpace {
            space,
            recovery,
            rt: self.rt.clone(),
            _workers: workers,
        }
    }
}

/// An open volume.
pub(crate) struct OpenSpace {
    pub(crate) space: Space,
    pub(crate) recovery: SpaceRecovery,
    pub(crate) rt: Rt,
    _workers: SpaceWorkers,
}

impl OpenSpace {
    /// Returns the length that a volume usually shows, in bytes: slightly less than the mappable space.
    pub(crate) fn usual_length(&self) -> u64 {
        self.space.capacity().mappable / 64 * 63 / LINE_BYTES * LINE_BYTES
    }

    /// Applies a batch, which must end soon.
    pub(crate) async fn try_apply(
        &self,
        batch: &Batch,
        how: Durability,
    ) -> Result<i64, SpaceError> {
        let applied = self.rt.timeout(SOON, self.space.apply(batch, how)).await;
        let Ok(applied) = applied else {
            let (capacity, why) = (self.space.capacity(), self.space.explain());
            panic!("a batch still waits after {SOON:?}: {capacity:?}; {why}");
        };
        applied
    }

    /// Applies a batch, which must succeed soon.
    pub(crate) async fn apply(&self, batch: &Batch) {
        let applied = self.try_apply(batch, Durability::Flush).await;
        applied.unwrap_or_else(|error| panic!("{error}; {}", self.space.explain()));
    }

    pub(crate) async fn trim(&self, at: u64, sectors: u64) {
        let mut batch = Batch::new();
        batch.trim(Sector(at), sectors);
        self.apply(&batch).await;
    }

    /// Flushes, which must succeed soon.
    pub(crate) async fn flush(&self) {
        let flushed = self.rt.timeout(SOON, self.space.flush()).await;
        flushed.expect("a flush ends").expect("flushed");
    }

    /// Makes a checkpoint, which must succeed soon.
    pub(crate) async fn checkpoint(&self) {
        let made = self.rt.timeout(SOON, self.space.checkpoint()).await;
        let made = made.unwrap_or_else(|_| panic!("no checkpoint: {}", self.space.explain()));
        made.expect("a checkpoint was made");
    }

    pub(crate) async fn audit(&self) {
        let audited = self.rt.timeout(60 * SOON, self.space.audit()).await;
        audited.expect("an audit ends").expect("all is counted");
    }

    /// Returns the byte of the device at which a sector lies.
    pub(crate) async fn place(&self, sector: u64) -> Option<u64> {
        let runs = self
            .space
            .places(sector..sector + 1, 9)
            .await
            .expect("told");
        match runs[0].at {
            SectorLocation::Medium(at) => Some(at),
            _ => None,
        }
    }

    pub(crate) async fn read(&self, sector: u64, sectors: u64) -> Result<BufMut, SpaceError> {
        let buf = BufMut::zeroed((sectors * SECTOR_BYTES) as usize);
        let read = self
            .rt
            .timeout(SOON, self.space.read(Sector(sector), buf))
            .await;
        read.expect("a read ends")
    }
}

/// Returns data that repeats `key` and `version`. Zeroes for version 0.
pub(crate) fn content(key: u64, version: u64, bytes: u64) -> Buf {
    let mut data = BufMut::zeroed(bytes as usize);
    if version > 0 {
        for chunk in data.chunks_exact_mut(16) {
            chunk[..8].copy_from_slice(&key.to_le_bytes());
            chunk[8..].copy_from_slice(&version.to_le_bytes());
        }
    }
    data.freeze()
}

/// The expected contents of a number of extents of equal length.
pub(crate) struct ExpectedExtents {
    versions: Vec<u64>,
    /// Sectors of an extent, and distance between the starts of extents.
    sectors: u64,
    stride: u64,
}

impl ExpectedExtents {
    pub(crate) fn new(extents: u64, sectors: u64, stride: u64) -> ExpectedExtents {
        ExpectedExtents {
            versions: vec![0; extents as usize],
            sectors,
            stride,
        }
    }

    /// Returns a model of adjacent blocks of 4 KiB.
    pub(crate) fn of_blocks(count: u64) -> ExpectedExtents {
        ExpectedExtents::new(count, LINE_SECTORS, LINE_SECTORS)
    }

    pub(crate) fn len(&self) -> u64 {
        self.versions.len() as u64
    }

    /// Returns a batch that writes the next version of an extent.
    pub(crate) fn next(&self, n: u64) -> Batch {
        let mut batch = Batch::new();
        self.add_next(&mut batch, n);
        batch
    }

    /// Adds a write of the next version of an extent to a batch.
    pub(crate) fn add_next(&self, batch: &mut Batch, n: u64) {
        let version = self.versions[n as usize] + 1;
        let data = content(n, version, self.sectors * SECTOR_BYTES);
        batch.write(Sector(n * self.stride), data);
    }

    /// Records that the next version of an extent was written.
    pub(crate) fn written(&mut self, n: u64) {
        self.versions[n as usize] += 1;
    }

    pub(crate) async fn write(&mut self, volume: &OpenSpace, n: u64, how: Durability) {
        let applied = volume.try_apply(&self.next(n), how).await;
        applied.unwrap_or_else(|error| panic!("{n}: {error}; {}", volume.space.explain()));
        self.written(n);
    }

    /// Records that extents were trimmed. Their versions restart.
    pub(crate) fn trimmed(&mut self, extents: std::ops::Range<u64>) {
        self.versions[extents.start as usize..extents.end as usize].fill(0);
    }

    /// Compares all extents with the volume's contents.
    pub(crate) async fn compare(&self, volume: &OpenSpace) {
        for (n, version) in (0..).zip(&self.versions) {
            let read = volume.read(n * self.stride, self.sectors).await;
            let read = read.unwrap_or_else(|error| panic!("{n}: {error}"));
            let expected = content(n, *version, self.sectors * SECTOR_BYTES);
            let found = u64::from_le_bytes(read[8..16].try_into().expect("eight"));
            assert!(
                read[..] == expected[..],
                "{n}: version {found}, not {version}"
            );
        }
    }
}
