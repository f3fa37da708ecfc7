//! Attaches a cache over a log-structured volume.

use std::rc::Rc;

use forebay_dcd::{DataIdentity, FailedLogRegistry};
use forebay_rt::Rt;

use super::in_use::CachedVolume;
use super::{as_data, in_words};
use crate::cache::{self, AcceptedFaults, AttachedLayer};
use crate::{CacheDevices, SpaceOptions, StackError, space};

/// Recovers the volume on the pair's data device, then the cache over it, and attaches both.
///
/// # Errors
/// If one of them cannot be attached, or they do not belong together.
pub(crate) async fn attach(
    rt: Rt,
    pair: CacheDevices,
    options: &SpaceOptions,
    name: &str,
    accept: AcceptedFaults,
    witness: Option<Rc<dyn FailedLogRegistry>>,
) -> Result<AttachedLayer, StackError> {
    let info = cache::inspect(&pair.log).await?;
    let data = pair.data.clone();
    let below = space::attach(rt.clone(), data, options, name, accept.loss).await?;
    let device = below.layer.device();
    let device = device.expect("a log-structured volume is a block device");
    let data = as_data(&pair.data, &below.layer.id(), device);
    let together = if accept.changed {
        Ok(())
    } else {
        belong_together(&pair, &info.data, &data.identity)
    };
    let over = CacheDevices { data, ..pair };
    let attached = match together {
        Ok(()) => cache::attach(rt.clone(), over, accept, witness).await,
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

/// Checks that the log belongs to a cache over this volume.
fn belong_together(
    pair: &CacheDevices,
    known: &DataIdentity,
    found: &DataIdentity,
) -> Result<(), StackError> {
    if found.names.iter().any(|name| known.names.contains(name)) {
        Ok(())
    } else {
        Err(StackError::OtherBelow {
            log: pair.log.spec.to_string(),
            data: pair.data.spec.to_string(),
            want: in_words(&known.names, &pair.data.spec),
            have: in_words(&found.names, &pair.data.spec),
        })
    }
}
