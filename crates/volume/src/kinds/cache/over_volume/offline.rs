//! A cache over a log-structured volume that is not attached: checking both layers.
//!
//! The volume below is recovered in memory first, so the cache is checked against the state that attaching would find.

use super::super::devices::CacheDevices;
use super::super::offline::check_log;
use super::create::recovered;
use crate::error::VolumeError;
use crate::kind::{CheckContext, ProgressSink};
use crate::kinds::space::{self, SpaceVolumeError};
use crate::report::LayerCheckReport;

/// Checks a cache and the volume below. Changes nothing.
///
/// # Errors
/// If a device does not hold a Forebay structure, or cannot be read.
pub(crate) async fn check(
    context: CheckContext<'_>,
    pair: &CacheDevices,
    progress: ProgressSink<'_>,
) -> Result<LayerCheckReport, VolumeError> {
    let below = space::check(context.rt, &pair.data.device, &mut *progress).await;
    let below = below.map_err(|error| SpaceVolumeError::not_a_space(&pair.data.spec, error))?;
    // The check above already reported the faults of the volume below.
    let data = recovered(context.rt, &pair.data).await.ok();
    let mut report = check_log(&pair.log, data.as_ref(), context.failed_logs, progress).await?;
    report.below = Some(Box::new(below));
    Ok(report.into_report())
}
