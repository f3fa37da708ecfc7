//! Opens the devices of a volume, and checks that they are distinct.

use std::rc::Rc;

use forebay_dcd::DataIdentity;
use forebay_device::{Device, DeviceSlice, OneDisk};
use forebay_disk_model::{Drive, EmulatedDisk, EmulatedError};
use forebay_linux::{CommonDisk, DeviceIdentity, DeviceOpenOptions, IoRing, UnderlyingDisks};
use forebay_rt::Rt;

use crate::error::VolumeError;
use crate::model::DiskModelSpec;
use crate::spec::DeviceSpec;

/// The surroundings in which devices are opened.
#[derive(Clone, Copy)]
pub struct OpenContext<'a> {
    /// The executor.
    pub rt: &'a Rt,
    /// The ring that carries out requests.
    pub ring: &'a Rc<IoRing>,
    /// The mode in which devices are opened.
    pub options: DeviceOpenOptions,
}

/// An opened device, or a part of an opened device.
#[derive(Clone)]
pub struct OpenDevice {
    /// The device as given.
    pub spec: DeviceSpec,
    /// The device for reading and writing.
    pub device: Rc<dyn Device>,
    /// The device without the model's timing, for operations on the file itself rather than on the emulated disk.
    pub beneath: Rc<dyn Device>,
    /// The emulated disk, if any. `device` may be only a part of that disk.
    pub emulated: Option<Rc<EmulatedDisk>>,
    /// Identity for recognising the data later. For a part, every name includes the part's position.
    pub identity: DataIdentity,
}

/// Storage that a log shares with its data device, if they are not parts of one device.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedStorage {
    /// True if a flush of one device also concerns the other: they are on one disk or in one filesystem.
    pub(crate) one_cache: bool,
    /// True if both are on one disk through partitions, volumes or arrays.
    pub(crate) one_disk: bool,
    /// The disk that holds both although `one_disk` is false, because a filesystem is in between.
    pub(crate) same_disk: Option<String>,
}

/// Two opened devices of a volume.
#[derive(Clone)]
pub(crate) struct DevicePair {
    /// The devices, in the order in which they were given.
    pub(crate) devices: [OpenDevice; 2],
    /// True if both are parts of one device, or are on one disk through partitions, volumes or arrays.
    pub(crate) shared: bool,
    /// The disk that holds both although they are not `shared`, because a filesystem is in between.
    pub(crate) same_disk: Option<String>,
}

/// The device at a path, opened once even if several parts of it are used.
struct SharedDevice {
    identity: DeviceIdentity,
    data: Rc<dyn Device>,
    emulated: Option<Rc<EmulatedDisk>>,
}

/// Opens the device that `spec` names.
///
/// # Errors
/// If the device cannot be opened, does not contain the part, or does not fit on the emulated disk.
pub fn open_one(context: OpenContext<'_>, spec: &DeviceSpec) -> Result<OpenDevice, VolumeError> {
    part_of(&open_whole(context, spec, spec.model())?, spec)
}

/// Opens two devices of a volume, each given with its role. If both are parts of one device, the device is opened once.
/// That device is one disk: if a model is named for one part, the other part is on that emulated disk, too.
///
/// # Errors
/// If a device cannot be opened, the two overlap, or they name different models for one disk.
pub(crate) fn open_pair(
    context: OpenContext<'_>,
    given: [(&'static str, &DeviceSpec); 2],
) -> Result<DevicePair, VolumeError> {
    let [(_, first), (_, second)] = given;
    let named = || given.map(|(role, spec)| (role, spec.to_string()));
    // If a device is missing, the error of opening it is clearer.
    let identities = first.identity().ok().zip(second.identity().ok());
    let (shared, overlap) = identities.map_or((false, false), |(first, second)| {
        (first.shares_device(&second), first.overlaps(&second))
    });
    if !shared {
        let shared = shared_storage(first, second);
        let devices = [open_one(context, first)?, open_one(context, second)?];
        return Ok(DevicePair {
            devices: shared.put_on(devices),
            shared: shared.one_disk,
            same_disk: shared.same_disk,
        });
    }
    if overlap {
        return Err(VolumeError::SameDevice {
            devices: named(),
            in_part: first.part().is_some() || second.part().is_some(),
        });
    }
    let model = match (first.model(), second.model()) {
        (Some(a), Some(b)) if a != b => return Err(VolumeError::TwoModels { devices: named() }),
        (a, b) => a.or(b),
    };
    let whole = open_whole(context, first, model)?;
    Ok(DevicePair {
        devices: with_one_cache([part_of(&whole, first)?, part_of(&whole, second)?]),
        shared,
        same_disk: None,
    })
}

/// Returns the storage that two devices share, which are not parts of one device.
pub(crate) fn shared_storage(log: &DeviceSpec, data: &DeviceSpec) -> SharedStorage {
    let disk = common_disk(log, data);
    let one_cache = disk.is_some() || in_one_filesystem(log, data);
    let (one_disk, same_disk) = on_one_disk(log, data, disk);
    SharedStorage {
        one_cache,
        one_disk,
        same_disk,
    }
}

impl SharedStorage {
    /// Returns the devices with the failures that follow from the shared storage.
    pub(crate) fn put_on(&self, devices: [OpenDevice; 2]) -> [OpenDevice; 2] {
        if self.one_cache {
            with_one_cache(devices)
        } else {
            devices
        }
    }
}

/// Makes a failed flush of either device a failed flush of both: the devices share the volatile cache of a disk, or a
/// filesystem.
fn with_one_cache([first, second]: [OpenDevice; 2]) -> [OpenDevice; 2] {
    let devices = OneDisk::over([Rc::clone(&first.device), Rc::clone(&second.device)]);
    let [first_device, second_device] = devices.map(|device| device as Rc<dyn Device>);
    [
        OpenDevice {
            device: first_device,
            ..first
        },
        OpenDevice {
            device: second_device,
            ..second
        },
    ]
}

/// Returns a disk that holds both devices, or the images of both if the disks are emulated.
fn common_disk(log: &DeviceSpec, data: &DeviceSpec) -> Option<CommonDisk> {
    UnderlyingDisks::below(log.path()).common(&UnderlyingDisks::below(data.path()))
}

/// Returns true if both devices are files of one filesystem. Such a filesystem may be on no disk that the system names.
fn in_one_filesystem(log: &DeviceSpec, data: &DeviceSpec) -> bool {
    let identities = log.identity().ok().zip(data.identity().ok());
    identities.is_some_and(|(log, data)| log.shares_filesystem(&data))
}

/// Returns whether two devices share a disk in the way that parts of one device do; if they do not, also the disk that
/// holds both through filesystems. The administrator decides about image files: the filesystem places their blocks, and
/// a thin image may lack space for a large write that the log would have held.
fn on_one_disk(
    log: &DeviceSpec,
    data: &DeviceSpec,
    common: Option<CommonDisk>,
) -> (bool, Option<String>) {
    // An emulated disk is a separate disk, wherever its image is stored.
    if log.model().is_some() || data.model().is_some() {
        return (false, None);
    }
    match common {
        Some(disk) if disk.through_files => (false, Some(disk.name)),
        common => (common.is_some(), None),
    }
}

fn open_whole(
    context: OpenContext<'_>,
    spec: &DeviceSpec,
    model: Option<&DiskModelSpec>,
) -> Result<SharedDevice, VolumeError> {
    let opened = spec.backend().open(context.ring, context.options)?;
    let emulated = model.map(|model| {
        forebay_linux::precise_timers();
        let drive = Drive::new(model.spec(), model.options());
        let emulated = EmulatedDisk::new(context.rt, Rc::clone(&opened.device), drive);
        emulated.map(Rc::new).map_err(|error| match error {
            EmulatedError::TooLarge { len, capacity } => VolumeError::TooLarge {
                path: spec.path().into(),
                len,
                model: model.name().into(),
                capacity,
            },
        })
    });
    Ok(SharedDevice {
        identity: opened.identity,
        data: opened.device,
        emulated: emulated.transpose()?,
    })
}

fn part_of(whole: &SharedDevice, spec: &DeviceSpec) -> Result<OpenDevice, VolumeError> {
    let beneath = slice_of(&whole.data, spec)?;
    let device = match &whole.emulated {
        Some(emulated) => slice_of(&(Rc::clone(emulated) as Rc<dyn Device>), spec)?,
        None => Rc::clone(&beneath),
    };
    Ok(OpenDevice {
        identity: identity_of(&whole.identity, spec, device.geometry().len),
        spec: spec.clone(),
        device,
        beneath,
        emulated: whole.emulated.clone(),
    })
}

fn slice_of(device: &Rc<dyn Device>, spec: &DeviceSpec) -> Result<Rc<dyn Device>, VolumeError> {
    let whole = device.geometry();
    let Some(part) = spec.part() else {
        return Ok(Rc::clone(device));
    };
    if part.end > whole.len {
        return Err(VolumeError::PastTheEnd {
            spec: spec.to_string(),
            len: whole.len,
        });
    }
    let slice = DeviceSlice::new(Rc::clone(device), part.start, part.end - part.start);
    Ok(Rc::new(slice.ok_or_else(|| VolumeError::Unaligned {
        spec: spec.to_string(),
        block_size: whole.block_size,
    })?))
}

/// Returns the identity of the data. The model is not included, because the data is the same on any disk.
fn identity_of(whole: &DeviceIdentity, spec: &DeviceSpec, len: u64) -> DataIdentity {
    let suffix = spec.suffix();
    let name = |name: &String| format!("{name}{suffix}");
    DataIdentity {
        len,
        path: name(&whole.path),
        names: whole.names.iter().map(name).collect(),
    }
}

#[cfg(test)]
mod tests {
    use forebay_device::{BufMut, Durability, RamDevice, Result, Tap, TapHooks, TapRequest};
    use forebay_rt::{Executor, VirtualTime};

    use super::*;

    /// Fails every flush.
    struct FailingFlushHooks;

    impl TapHooks for FailingFlushHooks {
        async fn before(&self, asked: &TapRequest) -> Result<()> {
            match asked {
                TapRequest::Flush => Err(forebay_device::DeviceError::Failed {
                    op: asked.op(),
                    cause: "a test".into(),
                }),
                _ => Ok(()),
            }
        }
    }

    fn part(name: &str, device: Rc<dyn Device>) -> OpenDevice {
        OpenDevice {
            spec: DeviceSpec::whole(name),
            beneath: Rc::clone(&device),
            device,
            emulated: None,
            identity: DataIdentity {
                len: 8192,
                path: name.into(),
                names: Vec::new(),
            },
        }
    }

    #[test]
    fn a_failed_flush_of_the_data_device_also_fails_the_log_on_the_same_disk() {
        let ram = || RamDevice::new(8192, 4096);
        let log = part("log", Rc::new(ram()));
        let data = part("data", Rc::new(Tap::new(ram(), FailingFlushHooks)));
        let [log, data] = with_one_cache([log, data]);
        Executor::new(Rc::new(VirtualTime::new())).block_on(async move {
            let bytes = BufMut::zeroed(4096).freeze();
            let written = log.device.write(0, bytes, Durability::Flush).await;
            written.expect("writes");
            data.device.flush().await.expect_err("fails");
            log.device.flush().await.expect_err("the disk forgot");
        });
    }

    #[test]
    fn files_of_one_filesystem_share_a_cache() {
        let dir = tempfile::tempdir().unwrap();
        let [log, data] = ["log", "data"].map(|name| {
            let path = dir.path().join(name);
            std::fs::write(&path, "").unwrap();
            DeviceSpec::whole(path)
        });
        assert!(in_one_filesystem(&log, &data));
        assert!(!in_one_filesystem(
            &log,
            &DeviceSpec::whole("/proc/self/stat")
        ));
        assert!(!in_one_filesystem(
            &log,
            &DeviceSpec::whole("/nowhere/at/all")
        ));
    }
}
