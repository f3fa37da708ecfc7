//! What is compared, on a virtual clock: a disk alone, and caches in front of the same disk.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use forebay_dcd::{AckMode, AttachOptions, CreateOptions, DataIdentity, DcdVolume, VolumeId};
use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, DeviceSlice, Durability, IoFuture, RamDevice, ZeroedSpace,
};
use forebay_disk_model::disk::{CacheChoice, DiskOptions, EnabledCaches, Scheduling, named};
use forebay_disk_model::{Drive, EmulatedDisk, TimingModel};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, SECTOR_BYTES};

use crate::arm::{DiskActivity, MeteredDisk};

/// The disk: of the family of the paper's.
pub(crate) const DISK: &str = "barracuda";
/// The bus between it and the host, in bytes a second: fast SCSI, as the paper's machine had. (The model's
/// own, of the host that the drive was measured on, has half of it.)
const BUS: NonZeroU64 = NonZeroU64::new(10_000_000).unwrap();
/// The largest log. The data has the same length whatever the log's is.
const LOG_MAX: u64 = 257 << 20;
/// What a log takes beside its segments.
const SUPERBLOCKS: u64 = 1 << 20;

/// What stands before the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheShape {
    /// Nothing.
    Plain,
    /// The cache, whose log is a part of the same disk: what the paper measured.
    Logical,
    /// The cache, whose log is on another disk of the same kind.
    Physical,
    /// A cache that costs nothing: writes are done at once and go nowhere. No cache can be faster.
    Free,
}

impl CacheShape {
    /// Those that are measured beside each other.
    pub(crate) const REAL: [CacheShape; 3] =
        [CacheShape::Plain, CacheShape::Logical, CacheShape::Physical];

    pub(crate) fn name(self) -> &'static str {
        match self {
            CacheShape::Plain => "plain disk",
            CacheShape::Logical => "logical DCD",
            CacheShape::Physical => "physical DCD",
            CacheShape::Free => "free writes",
        }
    }

    /// How a cache of this shape is set by itself.
    fn usual(self) -> AttachOptions {
        match self {
            CacheShape::Logical => AttachOptions::on_one_disk(),
            _ => AttachOptions::default(),
        }
    }
}

/// A shape with the sizes of its log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheSetup {
    pub(crate) shape: CacheShape,
    /// All segments of the log together.
    pub(crate) log: ByteLen,
    pub(crate) segment: ByteLen,
    /// When a write is acknowledged; at once, unless said otherwise.
    pub(crate) acknowledge: AckMode,
    /// The longest that what nobody flushed waits in memory.
    pub(crate) max_delay: Duration,
    /// Whether the disk is on the bus it was measured on.
    pub(crate) own_bus: bool,
}

/// Where the log is and where the data is.
pub(crate) struct SetupDisks {
    pub(crate) log: Rc<dyn Device>,
    pub(crate) data: Rc<dyn Device>,
    /// What the data's disk did so far.
    pub(crate) spent: Rc<Cell<DiskActivity>>,
}

/// A device to work on.
pub(crate) struct SetupDevice {
    pub(crate) device: Rc<dyn Device>,
    /// The cache, if there is one.
    pub(crate) volume: Option<DcdVolume>,
    /// What the data's disk did so far.
    pub(crate) spent: Rc<Cell<DiskActivity>>,
}

impl CacheSetup {
    /// A shape with a log of 64 MiB, as the paper's was, and of the usual segments.
    pub(crate) fn of(shape: CacheShape) -> CacheSetup {
        CacheSetup {
            shape,
            log: ByteLen::mib(64),
            segment: ByteLen::mib(1),
            acknowledge: AckMode::Flush,
            max_delay: shape.usual().max_delay,
            own_bus: false,
        }
    }

    /// Makes the disks and, where there is one, the cache.
    pub(crate) async fn open(self, rt: &Rt) -> Result<SetupDevice> {
        let SetupDisks { log, data, spent } = self.disks(rt)?;
        let (device, volume): (Rc<dyn Device>, _) = match self.shape {
            CacheShape::Plain => (data, None),
            CacheShape::Free => (Rc::new(InstantDevice(data)), None),
            CacheShape::Logical | CacheShape::Physical => {
                let volume = self.cache(rt, log, data).await?;
                (Rc::new(volume.clone()), Some(volume))
            }
        };
        Ok(SetupDevice {
            device,
            volume,
            spent,
        })
    }

    /// Makes the disks. The data lies in the same place of its disk in every shape, or the seeks would be
    /// others.
    pub(crate) fn disks(self, rt: &Rt) -> Result<SetupDisks> {
        let spent = Rc::default();
        let disk = self.disk(rt, 0.0, &spent)?;
        let log = self.log_bytes();
        let len = (disk.geometry().len - LOG_MAX) / 4096 * 4096;
        let data = part(Rc::clone(&disk), log..log + len)?;
        let log = match self.shape {
            // Two disks do not turn in step.
            CacheShape::Physical => part(self.disk(rt, 0.5, &Rc::default())?, 0..log)?,
            _ => part(disk, 0..log)?,
        };
        Ok(SetupDisks { log, data, spent })
    }

    fn log_bytes(self) -> u64 {
        self.log.0 + SUPERBLOCKS
    }

    fn disk(self, rt: &Rt, phase: f64, spent: &Rc<Cell<DiskActivity>>) -> Result<Rc<dyn Device>> {
        let spec = named(DISK).with_context(|| format!("no disk model {DISK}"))?;
        let spec = if self.own_bus { spec } else { spec.on_bus(BUS) };
        // With read-ahead and a queue of its own, and without answering writes early.
        let options = DiskOptions {
            caches: EnabledCaches::Explicit(CacheChoice {
                immediate_report: false,
                read_ahead: true,
            }),
            scheduling: Scheduling::Elevator,
            phase,
        };
        let drive = Drive::new(spec, options);
        let memory = Rc::new(RamDevice::new(drive.blocks() * SECTOR_BYTES, 512));
        let watched = MeteredDisk::new(drive, self.log_bytes(), spent);
        Ok(Rc::new(EmulatedDisk::new(rt, memory, watched)?))
    }

    async fn cache(self, rt: &Rt, log: Rc<dyn Device>, data: Rc<dyn Device>) -> Result<DcdVolume> {
        let identity = DataIdentity {
            len: data.geometry().len,
            path: "emulated".into(),
            names: Vec::new(),
        };
        let create = CreateOptions {
            name: "paper-dcd".into(),
            volume: VolumeId([7; 16]),
            segment: self.segment,
            data: identity.clone(),
        };
        forebay_dcd::create(Rc::clone(&log), Rc::clone(&data), create).await?;
        let options = AttachOptions {
            acknowledge: self.acknowledge,
            max_delay: self.max_delay,
            ..self.shape.usual()
        };
        let (volume, _) = DcdVolume::attach(rt.clone(), log, data, identity, options).await?;
        Ok(volume)
    }
}

fn part(disk: Rc<dyn Device>, range: Range<u64>) -> Result<Rc<dyn Device>> {
    let slice = DeviceSlice::new(disk, range.start, range.end - range.start);
    Ok(Rc::new(slice.context("the disk is too small")?))
}

/// Runs something on a virtual clock of its own.
pub(crate) fn virtually<T, F>(work: impl FnOnce(Rt) -> F) -> T
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(work(executor.rt()))
}

/// A device that takes writes in no time, and forgets them.
struct InstantDevice(Rc<dyn Device>);

impl Device for InstantDevice {
    fn geometry(&self) -> DeviceGeometry {
        self.0.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.0.read(at, buf)
    }

    fn write(&self, _at: u64, _buf: Buf, _durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, _range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn write_zeroes(&self, _range: Range<u64>, _room: ZeroedSpace) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
