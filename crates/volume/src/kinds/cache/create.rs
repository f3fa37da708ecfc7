//! Creates a write cache: formats its log.

use std::rc::Rc;

use forebay_dcd::{CreateOptions, SuperblockContents, VolumeId};
use forebay_ring_log::RingGeometry;
use forebay_units::ByteLen;

use super::options::SEGMENT;
use super::{CacheDevices, cache_tree, cached_volume_tree};
use crate::create::{CreateReport, CreateSpec, SegmentUse, cannot_make, unfit, unused};
use crate::kind::{CreateContext, OpenContext, VolumeCreation};
use crate::kinds::cached_volume::{self, is_space};
use crate::layer::LayerFuture;
use crate::open::OpenDevice;
use crate::{DeviceSpec, VolumeError};

/// Default segment size of a cache's log.
pub(crate) const LOG_SEGMENT: ByteLen = ByteLen::mib(1);

/// Parameters of a write cache to be created.
#[derive(Clone, Debug)]
pub(crate) struct CacheCreateSpec {
    /// The volume's name.
    pub(crate) name: String,
    /// The volume's id: 16 random bytes.
    pub(crate) volume: [u8; 16],
    /// Bytes in a segment of the log.
    pub(crate) segment: ByteLen,
}

/// The opened devices of a cache to be created.
struct CacheCreation {
    pair: CacheDevices,
    segment: ByteLen,
}

/// Opens the devices of a cache to be created.
///
/// # Errors
/// If a device cannot be opened or is unsuitable.
pub(super) fn plan(
    spec: &CreateSpec,
    context: OpenContext<'_>,
) -> Result<Box<dyn VolumeCreation>, VolumeError> {
    let segment = spec.options.get(&SEGMENT).unwrap_or(LOG_SEGMENT);
    let pair = open_with_log(spec.device("log")?, spec.device("data")?, segment, context)?;
    Ok(Box::new(CacheCreation { pair, segment }))
}

/// Opens a log and a data device, and checks that a log with segments of this size fits on the log device.
///
/// # Errors
/// If a device cannot be opened, the two do not go together, or the log does not fit.
pub(crate) fn open_with_log(
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

impl VolumeCreation for CacheCreation {
    fn formatted(&self) -> Vec<(&OpenDevice, &'static str)> {
        vec![(&self.pair.log, "log")]
    }

    fn to_fill(&self) -> Option<&OpenDevice> {
        Some(&self.pair.log)
    }

    fn create<'a>(
        &'a self,
        context: CreateContext<'a>,
    ) -> LayerFuture<'a, Result<CreateReport, VolumeError>> {
        Box::pin(async move {
            let pair = &self.pair;
            let new = CacheCreateSpec {
                name: context.name.to_string(),
                volume: context.id,
                segment: self.segment,
            };
            if cached_volume::is_under_cache(&pair.data).await {
                let info = cached_volume::make_log(context.rt, pair, new).await?;
                return Ok(cache_report(pair, &info, "the log-structured volume on "));
            }
            let info = make_log(&pair.log, &pair.data, new).await?;
            Ok(cache_report(pair, &info, ""))
        })
    }
}

/// Formats the log of a new cache in front of `data`.
///
/// # Errors
/// If the devices are unsuitable, or a device fails.
pub(crate) async fn make_log(
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
pub(crate) fn cache_report(
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
