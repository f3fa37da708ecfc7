//! A write cache that is not in use: creating it, and inspecting its log.

use std::rc::Rc;

use forebay_dcd::{CreateOptions, DcdCreateError, InspectError, SuperblockContents, VolumeId};
use forebay_device::{Device, DeviceError, DeviceGeometry};
use forebay_ring_log::{FormatError, RingError, RingGeometry, read_superblocks};
use forebay_units::ByteLen;

use crate::over::is_space;
use crate::status::{CacheCheck, LayerCheckReport, LayerDumpItem, LayerSalvageReport};
use crate::{CacheDevices, DeviceSpec, LayerTree, OpenDevice, StackError};

/// Parameters of a write cache to be created.
#[derive(Clone, Debug)]
pub(crate) struct CacheCreateSpec {
    /// The volume's name.
    pub name: String,
    /// The volume's id: 16 random bytes.
    pub volume: [u8; 16],
    /// Bytes in a segment of the log.
    pub segment: ByteLen,
}

/// Checks that a log with segments of this size fits on a device.
///
/// # Errors
/// If it does not fit, with the reason.
pub(crate) fn room_for_log(device: &DeviceGeometry, segment: ByteLen) -> Result<(), RingError> {
    RingGeometry::for_device(device, segment).map(|_| ())
}

/// Returns the maximum number of segments of this size in a log.
pub(crate) fn segments_max(segment: ByteLen) -> u64 {
    forebay_ring_log::segments_max(segment)
}

/// Formats the log of a new cache in front of `data`.
///
/// # Errors
/// If the devices are unsuitable, or a device fails.
pub(crate) async fn create(
    log: &OpenDevice,
    data: &OpenDevice,
    new: CacheCreateSpec,
) -> Result<SuperblockContents, DcdCreateError> {
    let options = CreateOptions {
        name: new.name,
        volume: VolumeId(new.volume),
        segment: new.segment,
        data: data.identity.clone(),
    };
    let (log, data) = (Rc::clone(&log.device), Rc::clone(&data.device));
    forebay_dcd::create(log, data, options).await
}

/// A Forebay log found on a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DetectedLog {
    /// The log of a volume that has everything on its data device.
    CleanLog {
        /// The volume's id.
        volume: String,
    },
    /// A log that holds the only copy of some data.
    DirtyLog {
        /// The volume's id.
        volume: String,
    },
    /// A log that cannot be read because it is damaged or has another version.
    UnknownLog(FormatError),
}

/// Returns the Forebay log on a device, if any.
pub(crate) async fn held(device: &dyn Device) -> Option<DetectedLog> {
    let copies = read_superblocks(device).await.ok()?;
    if let Ok(newest) = copies.newest() {
        let volume = newest.volume.to_string();
        return Some(if newest.clean {
            DetectedLog::CleanLog { volume }
        } else {
            DetectedLog::DirtyLog { volume }
        });
    }
    let broken = |copy: Result<_, FormatError>| match copy {
        Err(FormatError::Magic(_)) => None,
        Err(error) => Some(DetectedLog::UnknownLog(error)),
        // Both copies are intact, but contradict each other.
        Ok(superblock) => {
            let superblock: forebay_ring_log::RingSuperblock = superblock;
            Some(DetectedLog::DirtyLog {
                volume: superblock.volume.to_string(),
            })
        }
    };
    broken(copies.a).or_else(|| broken(copies.b))
}

/// Returns the volume's information as the log records it.
///
/// # Errors
/// If the device does not hold a write cache's log.
pub(crate) async fn inspect(log: &OpenDevice) -> Result<SuperblockContents, StackError> {
    let inspected = forebay_dcd::inspect(Rc::clone(&log.device)).await;
    inspected.map_err(|error| not_a_log(&log.spec, error))
}

/// Checks a log, and that it belongs to the data device if a data device is given. Changes nothing. `progress` receives
/// the bytes done and the total bytes.
///
/// # Errors
/// If the device does not hold a write cache's log, or cannot be read.
pub(crate) async fn check(
    log: &OpenDevice,
    data: Option<&OpenDevice>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<LayerCheckReport, StackError> {
    let data = data.map(|data| (Rc::clone(&data.device), data.identity.clone()));
    let checked = forebay_dcd::check(Rc::clone(&log.device), data, progress).await;
    let report = checked.map_err(|error| not_a_log(&log.spec, error))?;
    Ok(LayerCheckReport::Cache(CacheCheck {
        cache: report,
        below: None,
    }))
}

/// Writes to the data device the data that was lost with an abandoned log, as far as the log can be read now.
///
/// # Errors
/// If the log was not abandoned or belongs to another data device, or a device fails.
pub(crate) async fn salvage(pair: &CacheDevices) -> Result<LayerSalvageReport, StackError> {
    let (log, data) = (Rc::clone(&pair.log.device), Rc::clone(&pair.data.device));
    let salvaged = forebay_dcd::salvage(log, data, &pair.data.identity).await;
    let report = salvaged.map_err(|error| StackError::Salvage {
        log: pair.log.spec.to_string(),
        data: pair.data.spec.to_string(),
        error,
    })?;
    Ok(LayerSalvageReport::Cache(report))
}

/// Passes every valid structure of a log to `out`, in the log's order. Changes nothing.
///
/// # Errors
/// If the device does not hold a log, or cannot be read. The superblocks have been passed before.
pub(crate) async fn dump(
    log: &OpenDevice,
    out: &mut dyn FnMut(LayerDumpItem),
) -> Result<(), StackError> {
    let mut out = |item| out(LayerDumpItem::Cache(item));
    let dumped = forebay_dcd::dump(Rc::clone(&log.device), &mut out).await;
    dumped.map_err(|error| not_a_log(&log.spec, error))
}

/// Erases the structures by which a log is recognised.
///
/// # Errors
/// Those of the device.
pub(crate) async fn erase(log: &OpenDevice) -> Result<(), DeviceError> {
    forebay_dcd::erase(Rc::clone(&log.device)).await
}

/// Returns the error for a log that cannot be inspected.
fn not_a_log(log: &DeviceSpec, error: InspectError) -> StackError {
    StackError::NotALog {
        log: log.to_string(),
        error,
    }
}

/// Returns the tree of a cache whose log is `log`. The data device is `data` if given, else the device that the log
/// records.
///
/// # Errors
/// If the log does not record a usable path.
pub(crate) fn cache_of(
    log: DeviceSpec,
    info: &SuperblockContents,
    data: Option<&DeviceSpec>,
) -> Result<LayerTree, StackError> {
    let data = match data {
        Some(data) => data.clone(),
        None => info
            .data
            .path
            .parse()
            .map_err(|error| StackError::Remembered {
                log: log.to_string(),
                path: info.data.path.clone(),
                error,
            })?,
    };
    Ok(if info.data.names.iter().any(|name| is_space(name)) {
        LayerTree::over(log, data)
    } else {
        LayerTree::cache(log, data)
    })
}
