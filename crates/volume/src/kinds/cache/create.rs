//! Creates a write cache.

use forebay_units::ByteLen;

use super::devices::CacheDevices;
use super::log::{CacheCreateSpec, LOG_SEGMENT, cache_report, make_log, open_with_log};
use super::over_volume;
use crate::create_spec::{CreateReport, CreateSpec};
use crate::error::VolumeError;
use crate::kind::{CreateContext, VolumeCreation};
use crate::layer::LayerFuture;
use crate::open::{OpenContext, OpenDevice};
use crate::options::shared::SEGMENT;

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
            if over_volume::is_under_cache(&pair.data).await {
                let info = over_volume::make_log(context.rt, pair, new).await?;
                return Ok(cache_report(pair, &info, "the log-structured volume on "));
            }
            let info = make_log(&pair.log, &pair.data, new).await?;
            Ok(cache_report(pair, &info, ""))
        })
    }
}
