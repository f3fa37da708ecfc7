//! Creates a cache over a log-structured volume, or over an existing one.

use std::rc::Rc;

use forebay_dcd::SuperblockContents;
use forebay_rt::Rt;
use forebay_units::ByteLen;
use forebay_vsl::{SpaceDevice, SpaceOpenError};

use super::super::data_name::as_data;
use super::super::devices::CacheDevices;
use super::super::log::{self, CacheCreateSpec, LOG_SEGMENT, cache_report, open_with_log};
use crate::create_spec::{CreateReport, CreateSpec};
use crate::error::VolumeError;
use crate::kind::{CreateContext, VolumeCreation};
use crate::kinds::space::{self, SIZE, SpaceCreateSpec, SpaceVolumeError};
use crate::layer::LayerFuture;
use crate::open::{OpenContext, OpenDevice};

/// The longest volume that a cache supports.
const LEN_MAX: ByteLen = ByteLen::gib(4 << 20);

/// Opens the devices of a log-structured volume with a cache in front of it; both are to be created.
///
/// # Errors
/// If the volume is of another kind or too long, or a device cannot be opened or is unsuitable.
pub(crate) fn plan(
    spec: &CreateSpec,
    context: OpenContext<'_>,
) -> Result<Box<dyn VolumeCreation>, VolumeError> {
    if *spec.kind != space::SPEC {
        let what = spec.kind.title;
        let text = format!("a write cache in front of a {what} is not supported: leave out --log");
        return Err(VolumeError::Usage(text));
    }
    if let Some(size) = spec.options.get(&SIZE).filter(|size| *size > LEN_MAX) {
        return Err(VolumeError::Usage(format!(
            "a volume of --size {size} is too large for a cache: give {LEN_MAX} or less, or no --log"
        )));
    }
    let pair = open_with_log(
        spec.device("log")?,
        spec.device("data")?,
        LOG_SEGMENT,
        context,
    )?;
    let below = space::create_spec(&spec.options);
    space::fits(&pair.data, &below)?;
    Ok(Box::new(CachedVolumeCreation { pair, below }))
}

/// The opened devices of a log-structured volume with a cache in front of it; both are to be created.
struct CachedVolumeCreation {
    /// The devices.
    pair: CacheDevices,
    /// Parameters of the log-structured volume.
    below: SpaceCreateSpec,
}

impl VolumeCreation for CachedVolumeCreation {
    fn formatted(&self) -> Vec<(&OpenDevice, &'static str)> {
        vec![(&self.pair.log, "log"), (&self.pair.data, "data")]
    }

    fn to_fill(&self) -> Option<&OpenDevice> {
        Some(&self.pair.log)
    }

    fn create<'a>(
        &'a self,
        context: CreateContext<'a>,
    ) -> LayerFuture<'a, Result<CreateReport, VolumeError>> {
        Box::pin(async move {
            // The two volumes need different ids.
            let mut id_below = context.id;
            id_below[15] ^= 0xff;
            let pair = &self.pair;
            let below = space::make_volume(context.rt, &pair.data, &self.below, id_below).await?;
            let new = CacheCreateSpec {
                name: context.name.to_string(),
                volume: context.id,
                segment: LOG_SEGMENT,
            };
            let info = make_log(context.rt, pair, new).await?;
            let made = cache_report(pair, &info, "");
            Ok(CreateReport {
                summary: format!("{}; {}", made.summary, below.summary),
                ..made
            })
        })
    }
}

/// Returns true if a device holds a log-structured volume that a cache can be put in front of: both copies of its
/// superblock must be intact.
pub(crate) async fn is_under_cache(data: &OpenDevice) -> bool {
    let copies = space::superblocks(&*data.device).await;
    copies.is_ok_and(|copies| copies.a.is_ok() && copies.b.is_ok())
}

/// Creates the log of a new cache over the volume on the pair's data device. The volume is not changed.
///
/// # Errors
/// If the volume cannot be attached, the devices are unsuitable, or a device fails.
pub(crate) async fn make_log(
    rt: &Rt,
    pair: &CacheDevices,
    new: CacheCreateSpec,
) -> Result<SuperblockContents, VolumeError> {
    let data = recovered_at(rt, &pair.data).await?;
    log::make_log(&pair.log, &data, new).await
}

/// Returns the volume on a device as the data of a cache. Changes nothing on the device.
///
/// # Errors
/// If the device is not a log-structured volume, or fails.
pub(crate) async fn recovered_at(rt: &Rt, on: &OpenDevice) -> Result<OpenDevice, VolumeError> {
    let recovered = recovered(rt, on).await;
    recovered.map_err(|error| SpaceVolumeError::not_a_space(&on.spec, error))
}

/// Does the same as [`recovered_at`], with the error of the volume.
pub(super) async fn recovered(rt: &Rt, on: &OpenDevice) -> Result<OpenDevice, SpaceOpenError> {
    let space = space::in_memory(rt, &on.device).await?;
    let id = space.superblock().id().to_string();
    Ok(as_data(on, &id, Rc::new(SpaceDevice::new(space))))
}
