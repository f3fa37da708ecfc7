//! Two disks and a cache for tests that execute single steps.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;

use forebay_dcd::{
    AttachOptions, AttachReport, DcdAttachError, DcdVolume, FailedLogFuture, FailedLogRegistry,
    VolumeId,
};
use forebay_device::{BufMut, CheckedDevice, Device, DeviceError};
use forebay_rt::{Driver, Rt, VirtualTime};
use forebay_sim::disk::{DiskImage, SimDisk, WriteFate};
use forebay_sim::machine::Machine;
use forebay_sim::role::PerDisk;
use forebay_sim::stamp::{BEFORE, stamp};

use super::settings::CacheDisk;
use super::volume::{CacheImages, LOG_BYTES, attaching, medium, with_log};

/// A storage of failed-log records in memory, which behaves like a storage on a separate disk.
#[derive(Debug, Default)]
pub struct MemoryLogRegistry {
    abandoned: RefCell<BTreeMap<VolumeId, u64>>,
}

impl FailedLogRegistry for MemoryLogRegistry {
    fn abandoned(&self, volume: VolumeId) -> FailedLogFuture<'_, Option<u64>> {
        Box::pin(async move { Ok(self.abandoned.borrow().get(&volume).copied()) })
    }

    fn abandon(&self, volume: VolumeId, epoch: u64) -> FailedLogFuture<'_, ()> {
        Box::pin(async move {
            self.abandoned.borrow_mut().insert(volume, epoch);
            Ok(())
        })
    }
}

/// A machine with a log device and a data device.
pub struct CacheTestbed {
    machine: Machine<CacheDisk>,
    /// The log device.
    pub log: Rc<SimDisk>,
    /// The data device.
    pub data: Rc<SimDisk>,
    /// Storage of failed-log records, if any.
    pub witness: RefCell<Option<Rc<dyn FailedLogRegistry>>>,
}

impl Deref for CacheTestbed {
    type Target = Machine<CacheDisk>;

    fn deref(&self) -> &Machine<CacheDisk> {
        &self.machine
    }
}

impl CacheTestbed {
    /// Creates a testbed with these images. The power is cut at request `cut_at`.
    pub fn with_images(seed: u64, cut_at: Option<u64>, log: &[u8], data: &[u8]) -> CacheTestbed {
        let medium = medium(&DiskImage::of(log), &DiskImage::of(data));
        CacheTestbed::new(seed, cut_at, &medium, 512, Rc::new(VirtualTime::new()))
    }

    /// Creates a testbed whose disks have blocks of `block` bytes, on this clock.
    pub fn new(
        seed: u64,
        cut_at: Option<u64>,
        medium: &CacheImages,
        block: u32,
        clock: Rc<dyn Driver>,
    ) -> CacheTestbed {
        let machine = Machine::new(seed, cut_at, medium, &PerDisk::of(|_| block), clock);
        let [log, data] =
            [CacheDisk::Log, CacheDisk::Data].map(|role| Rc::clone(&machine.disks[role]));
        CacheTestbed {
            machine,
            log,
            data,
            witness: RefCell::default(),
        }
    }

    /// Adds a storage of failed-log records.
    #[must_use]
    pub fn witnessed(self, witness: &Rc<MemoryLogRegistry>) -> CacheTestbed {
        let witness = Rc::clone(witness) as Rc<dyn FailedLogRegistry>;
        self.witness.replace(Some(witness));
        self
    }

    /// Returns the clock, the log's disk and the data disk, for use in a task.
    pub fn parts(&self) -> (Rt, Rc<SimDisk>, Rc<SimDisk>) {
        (
            self.machine.rt.clone(),
            Rc::clone(&self.log),
            Rc::clone(&self.data),
        )
    }

    /// Attaches the volume and passes it to `each`.
    ///
    /// # Panics
    /// If the attach fails.
    pub fn with_volume<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        options: AttachOptions,
        each: impl FnOnce(DcdVolume) -> F + 'static,
    ) -> Option<T> {
        let attach = self.attaching(options);
        self.run(async move {
            let (volume, _) = attach.await.expect("attach");
            each(volume).await
        })
    }

    /// Attaches the volume. The attach may fail.
    pub fn attach(
        &self,
        options: AttachOptions,
    ) -> Option<Result<(DcdVolume, AttachReport), DcdAttachError>> {
        self.run(self.attaching(options))
    }

    /// Returns the future of an attach.
    fn attaching(
        &self,
        options: AttachOptions,
    ) -> impl Future<Output = Result<(DcdVolume, AttachReport), DcdAttachError>> + use<> {
        attaching(&self.machine, false, options, self.witness.borrow().clone())
    }

    /// Returns the disks after a power cut, like [`Machine::cut`], in plain bytes.
    pub fn after_cut(&self, coin: WriteFate) -> DiskBytes {
        DiskBytes {
            log: self.log.after_cut(coin),
            data: self.data.after_cut(coin),
        }
    }

    /// Returns the disks as reads see them.
    pub fn now(&self) -> DiskBytes {
        DiskBytes {
            log: self.log.now(),
            data: self.data.now(),
        }
    }
}

/// The content of the two disks, in plain bytes.
#[derive(Clone)]
pub struct DiskBytes {
    /// Content of the log device.
    pub log: Vec<u8>,
    /// Content of the data device.
    pub data: Vec<u8>,
}

impl DiskBytes {
    /// Returns a data device of `len` bytes with initial content, and a fresh log of the smallest size.
    pub fn fresh(len: u64) -> DiskBytes {
        let data = stamp(BEFORE, 0, len);
        let log = fresh_log(LOG_BYTES, &data);
        DiskBytes { log, data }
    }

    /// Creates a testbed with these disks.
    pub fn scenario(&self, seed: u64, cut_at: Option<u64>) -> CacheTestbed {
        CacheTestbed::with_images(seed, cut_at, &self.log, &self.data)
    }
}

/// Returns the image of a fresh log of `len` bytes for a data device that holds `data`.
pub fn fresh_log(len: u64, data: &[u8]) -> Vec<u8> {
    with_log(len, &DiskImage::of(data), 512)[CacheDisk::Log].to_vec()
}

/// Wraps the volume in a checked device.
pub fn checked(volume: &DcdVolume) -> CheckedDevice<DcdVolume> {
    CheckedDevice::new(volume.clone(), "volume")
}

/// Reads the whole content of a device.
///
/// # Errors
/// The device's error.
pub async fn read_all(device: &dyn Device) -> Result<Vec<u8>, DeviceError> {
    let len = device.geometry().len;
    let mut out = Vec::with_capacity(len as usize);
    while (out.len() as u64) < len {
        let n = (len - out.len() as u64).min(1 << 20);
        let buf = BufMut::to_fill(n as usize);
        out.extend_from_slice(&device.read(out.len() as u64, buf).await?);
    }
    Ok(out)
}
