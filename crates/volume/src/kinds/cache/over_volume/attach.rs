//! Attaches a cache over a log-structured volume.

use std::rc::Rc;

use super::super::attach::attach as attach_cache;
use super::super::data_name::{as_data, belong_together};
use super::super::devices::CacheDevices;
use super::super::offline::inspect;
use super::attached::CachedVolume;
use crate::error::VolumeError;
use crate::kind::{AttachContext, AttachedLayer};
use crate::kinds::space;
use crate::options::OptionValues;

/// Recovers the volume on the pair's data device, then the cache over it, and attaches both.
///
/// # Errors
/// If one of them cannot be attached, or they do not belong together.
pub(crate) async fn attach(
    pair: CacheDevices,
    options: &OptionValues,
    context: AttachContext,
) -> Result<AttachedLayer, VolumeError> {
    let info = inspect(&pair.log).await?;
    let below = space::attach(pair.data.clone(), options, &context).await?;
    let device = below.layer.device();
    let device = device.expect("a log-structured volume is a block device");
    let data = as_data(&pair.data, &below.layer.id(), device);
    let together = if context.accept.changed {
        Ok(())
    } else {
        belong_together(&pair.log.spec, &pair.data.spec, &info.data, &data.identity)
    };
    let over = CacheDevices { data, ..pair };
    let rt = context.rt.clone();
    let attached = match together {
        Ok(()) => attach_cache(over, context).await,
        Err(error) => Err(error),
    };
    match attached {
        Ok(above) => {
            let notes = below.notes.into_iter().chain(above.notes);
            Ok(AttachedLayer {
                notes: notes.collect(),
                layer: Rc::new(CachedVolume::new(rt, above.layer, below.layer)),
            })
        }
        Err(error) => {
            if let Err(error) = below.layer.close().await {
                tracing::warn!(%error, "cannot close the volume below a cache that failed to attach");
            }
            Err(error)
        }
    }
}
