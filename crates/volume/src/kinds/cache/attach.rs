//! Attaches the write cache to its two devices.

use std::rc::Rc;

use forebay_dcd::{AttachReport, DcdVolume};
use forebay_units::ByteLen;

use super::attached::AttachedCache;
use super::data_name::{belong_together, is_space};
use super::devices::CacheDevices;
use super::error::CacheError;
use super::offline::inspect;
use super::settings::{beside_data, settings};
use crate::error::VolumeError;
use crate::kind::{AttachContext, AttachedLayer};

/// Recovers the volume whose log and data device are `pair`, and attaches it with the options of the pair.
///
/// # Errors
/// Those of [`DcdVolume::attach_witnessed`].
pub(super) async fn attach(
    pair: CacheDevices,
    context: AttachContext,
) -> Result<AttachedLayer, VolumeError> {
    if !pair.data.identity.names.iter().any(|name| is_space(name)) {
        over_device(&pair).await?;
    }
    let settings = settings(&pair.options, pair.shared, context.accept);
    let acknowledge = settings.acknowledge;
    let devices = [&pair.log, &pair.data].map(|part| Rc::clone(&part.device));
    let ([log, data], identity) = (devices, pair.data.identity.clone());
    let (rt, witness) = (context.rt, context.failed_logs);
    let attached = DcdVolume::attach_witnessed(rt, log, data, identity, settings, witness);
    let (volume, report) = attached.await.map_err(|error| CacheError::Attach {
        log: pair.log.spec.to_string(),
        data: pair.data.spec.to_string(),
        error,
    })?;
    let mut notes = found(report);
    notes.extend(beside_data(pair.same_disk.as_deref(), &pair.options));
    Ok(AttachedLayer {
        layer: Rc::new(AttachedCache::new(volume, pair, acknowledge)),
        notes,
    })
}

/// Refuses the log of a cache over a log-structured volume. Attaching it here would overwrite that volume.
async fn over_device(pair: &CacheDevices) -> Result<(), VolumeError> {
    let Ok(info) = inspect(&pair.log).await else {
        // Attaching reports the errors of the log.
        return Ok(());
    };
    let (log, data) = (&pair.log.spec, &pair.data.spec);
    belong_together(log, data, &info.data, &pair.data.identity)
}

fn found(report: AttachReport) -> Vec<String> {
    let mut notes = report.notes;
    if !report.was_clean && report.records > 0 {
        notes.insert(
            0,
            format!(
                "recovered {} records, {} of them not on the data device yet",
                report.records,
                ByteLen(report.dirty_bytes)
            ),
        );
    }
    notes
}
