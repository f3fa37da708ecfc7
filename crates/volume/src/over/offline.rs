//! A cache over a log-structured volume that is not in use: creating it, and checking both layers.
//!
//! The volume below is recovered in memory first, so the cache is checked against the state that attaching would find.

use std::rc::Rc;

use forebay_dcd::SuperblockContents;
use forebay_rt::Rt;
use forebay_vsl::{SpaceDevice, SpaceOpenError};

use super::as_data;
use crate::cache::{self, CacheCreateSpec};
use crate::status::LayerCheckReport;
use crate::{CacheDevices, OpenDevice, StackError, space};

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
pub(crate) async fn create(
    rt: &Rt,
    pair: &CacheDevices,
    new: CacheCreateSpec,
) -> Result<SuperblockContents, StackError> {
    let data = looked_at(rt, &pair.data).await;
    let data = data.map_err(|error| StackError::not_a_space(&pair.data.spec, error))?;
    let made = cache::create(&pair.log, &data, new).await;
    made.map_err(|error| StackError::Make {
        path: pair.log.spec.to_string(),
        what: "a log",
        why: error.to_string(),
    })
}

/// Checks a cache and the volume below. Changes nothing.
///
/// # Errors
/// If a device does not hold a Forebay structure, or cannot be read.
pub(crate) async fn check(
    rt: &Rt,
    pair: &CacheDevices,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<LayerCheckReport, StackError> {
    let below = space::check(rt, &pair.data.device, progress).await;
    let below = below.map_err(|error| StackError::not_a_space(&pair.data.spec, error))?;
    // The check above already reported the faults of the volume below.
    let data = looked_at(rt, &pair.data).await.ok();
    let mut report = cache::check(&pair.log, data.as_ref(), progress).await?;
    if let LayerCheckReport::Cache(report) = &mut report {
        report.below = Some(Box::new(below));
    }
    Ok(report)
}

/// Returns the volume on a device as the data of a cache. Changes nothing on the device.
async fn looked_at(rt: &Rt, on: &OpenDevice) -> Result<OpenDevice, SpaceOpenError> {
    let space = space::in_memory(rt, &on.device).await?;
    let id = space.superblock().volume.to_string();
    Ok(as_data(on, &id, Rc::new(SpaceDevice::new(space))))
}
