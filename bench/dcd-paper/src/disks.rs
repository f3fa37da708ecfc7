//! The compared setups, on a virtual clock: a disk alone, and caches in front of an identical disk.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use forebay_dcd::{AttachOptions, CreateOptions, DataIdentity, DcdVolume, VolumeId};
use forebay_device::{
    AckMode, Buf, BufMut, Device, DeviceGeometry, DeviceSlice, Durability, IoFuture, RamDevice,
    ZeroedSpace,
};
use forebay_disk_model::disk::{CacheChoice, DiskOptions, EnabledCaches, Scheduling, named};
use forebay_disk_model::{Drive, EmulatedDisk, TimingModel};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, SECTOR_BYTES};

use crate::arm::{DiskActivity, MeteredDisk};

/// Disk model, of the same family as the paper's disk.
pub(crate) const DISK: &str = "barracuda";
/// Bandwidth of the bus between the disk and the host, in bytes per second: fast SCSI, as in the paper's machine. The
/// bus of the host on which the model's drive was measured has half this bandwidth.
const BUS: NonZeroU64 = NonZeroU64::new(10_000_000).unwrap();
/// Largest log. The length of the data does not depend on the length of the log.
const LOG_MAX: u64 = 257 << 20;
/// Space that a log needs beside its segments.
const SUPERBLOCKS: u64 = 1 << 20;

/// Layer in front of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheShape {
    /// No cache.
    Plain,
    /// A cache whose log is a range of the data disk: the setup that the paper measured.
    Logical,
    /// A cache whose log is on another disk of the same kind.
    Physical,
    /// An ideal cache: each write completes at once and is discarded. No cache can be faster.
    Free,
}

impl CacheShape {
    /// Shapes that are compared with each other.
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

    /// Returns the default options of a cache of this shape.
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
    /// Total length of the segments of the log.
    pub(crate) log: ByteLen,
    pub(crate) segment: ByteLen,
    /// Acknowledgement mode of writes. The default is at once.
    pub(crate) acknowledge: AckMode,
    /// Longest time that unflushed data stays in memory.
    pub(crate) max_delay: Duration,
    /// True for a disk on the bus that the model was measured on.
    pub(crate) own_bus: bool,
}

/// The log device and the data device.
pub(crate) struct SetupDisks {
    pub(crate) log: Rc<dyn Device>,
    pub(crate) data: Rc<dyn Device>,
    /// Activity of the data disk so far.
    pub(crate) spent: Rc<Cell<DiskActivity>>,
}

/// The device to measure.
pub(crate) struct SetupDevice {
    pub(crate) device: Rc<dyn Device>,
    /// The cache, if the shape has a cache.
    pub(crate) volume: Option<DcdVolume>,
    /// Activity of the data disk so far.
    pub(crate) spent: Rc<Cell<DiskActivity>>,
}

impl CacheSetup {
    /// Returns a shape with a log of 64 MiB, as in the paper, and segments of the default size.
    pub(crate) fn of(shape: CacheShape) -> CacheSetup {
        CacheSetup {
            shape,
            log: ByteLen::mib(64),
            segment: ByteLen::mib(1),
            acknowledge: AckMode::Memory,
            max_delay: shape.usual().max_delay,
            own_bus: false,
        }
    }

    /// Makes the disks and, if the shape has a cache, the cache.
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

    /// Makes the disks. The data has the same place on its disk in every shape, so that all shapes have equal seeks.
    pub(crate) fn disks(self, rt: &Rt) -> Result<SetupDisks> {
        let spent = Rc::default();
        let disk = self.disk(rt, 0.0, &spent)?;
        let log = self.log_bytes();
        let len = (disk.geometry().len - LOG_MAX) / 4096 * 4096;
        let data = part(Rc::clone(&disk), log..log + len)?;
        let log = match self.shape {
            // Two disks do not rotate in step.
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
        // Read-ahead and the disk's own queue are on; early acknowledgement of writes is off.
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

/// Runs `work` on a virtual clock of its own.
pub(crate) fn virtually<T, F>(work: impl FnOnce(Rt) -> F) -> T
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(work(executor.rt()))
}

/// A device that completes writes at once and discards their data.
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
