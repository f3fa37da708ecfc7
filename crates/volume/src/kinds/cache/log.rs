//! Formats the log of a write cache, and describes the cache.

use std::rc::Rc;

use forebay_dcd::{CreateOptions, SuperblockContents, VolumeId};
use forebay_ring_log::RingGeometry;
use forebay_units::ByteLen;

use super::data_name::is_space;
use super::devices::CacheDevices;
use super::spec::SPEC;
use crate::create_spec::{CreateReport, SegmentUse, cannot_make, unfit, unused};
use crate::error::VolumeError;
use crate::kinds::space;
use crate::open::{OpenContext, OpenDevice};
use crate::spec::DeviceSpec;
use crate::tree::{DeviceOrLayer, LayerTree};

/// Default segment size of a cache's log.
pub(crate) const LOG_SEGMENT: ByteLen = ByteLen::mib(1);

/// Parameters of a write cache to be created.
#[derive(Clone, Debug)]
pub(super) struct CacheCreateSpec {
    /// The volume's name.
    pub(super) name: String,
    /// The volume's id: 16 random bytes.
    pub(super) volume: [u8; 16],
    /// Bytes in a segment of the log.
    pub(super) segment: ByteLen,
}

/// Opens a log and a data device, and checks that a log with segments of this size fits on the log device.
///
/// # Errors
/// If a device cannot be opened, the two do not go together, or the log does not fit.
pub(super) fn open_with_log(
    log: &DeviceSpec,
    data: &DeviceSpec,
    segment: ByteLen,
    context: OpenContext<'_>,
) -> Result<CacheDevices, VolumeError> {
    let pair = CacheDevices::open_devices(log, data, context)?;
    let fits = RingGeometry::for_device(&pair.log.device.geometry(), segment);
    fits.map_err(|error| unfit(log, "a log", &error))?;
    Ok(pair)
}

/// Formats the log of a new cache in front of `data`.
///
/// # Errors
/// If the devices are unsuitable, or a device fails.
pub(super) async fn make_log(
    log: &OpenDevice,
    data: &OpenDevice,
    new: CacheCreateSpec,
) -> Result<SuperblockContents, VolumeError> {
    let options = CreateOptions {
        name: new.name,
        volume: VolumeId(new.volume),
        segment: new.segment,
        data: data.identity.clone(),
    };
    let devices = (Rc::clone(&log.device), Rc::clone(&data.device));
    let created = forebay_dcd::create(devices.0, devices.1, options).await;
    created.map_err(|error| cannot_make(&log.spec, "a log", &error))
}

/// Describes a created cache in front of a device, or of the volume on that device.
pub(super) fn cache_report(
    pair: &CacheDevices,
    info: &SuperblockContents,
    of: &str,
) -> CreateReport {
    let (log, data) = (pair.log.spec.clone(), pair.data.spec.clone());
    let segment = ByteLen(info.segment_bytes.into());
    let segments = SegmentUse {
        device_bytes: pair.log.device.geometry().len,
        count: info.segment_count,
        segment_bytes: segment.0,
        count_max: forebay_ring_log::segments_max(segment),
    };
    CreateReport {
        summary: format!(
            "{log} in front of {of}{data}, {} segments of {segment}{}",
            info.segment_count,
            unused(&log, segments)
        ),
        volume: info.volume.clone(),
        tree: if info.data.names.iter().any(|name| is_space(name)) {
            cached_volume_tree(log, data)
        } else {
            cache_tree(log, data)
        },
    }
}

/// Returns a cache over two devices, with default options.
pub(super) fn cache_tree(log: DeviceSpec, data: DeviceSpec) -> LayerTree {
    tree_over(log, DeviceOrLayer::Device(data))
}

/// Returns a cache over a log-structured volume, both with default options.
pub(super) fn cached_volume_tree(log: DeviceSpec, data: DeviceSpec) -> LayerTree {
    let below = [("data", DeviceOrLayer::Device(data))];
    let below = LayerTree::new(&space::SPEC, below);
    tree_over(log, DeviceOrLayer::Layer(Box::new(below)))
}

fn tree_over(log: DeviceSpec, data: DeviceOrLayer) -> LayerTree {
    let children = [("data", data), ("log", DeviceOrLayer::Device(log))];
    LayerTree::new(&SPEC, children)
}
