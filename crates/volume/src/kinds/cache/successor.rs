//! Another log for a cache that is not attached, and whose log is out of use.

use forebay_dcd::{FormerLog, SuccessorError};

use super::data_name::belong_together;
use super::devices::CacheDevices;
use super::error::CacheError;
use super::over_volume;
use crate::error::VolumeError;
use crate::new_log::NewLog;
use crate::open::{OpenContext, open_one};
use crate::tree::LayerTree;

/// Makes `new` the log of the volume that `tree` describes, whose log is `former`. Returns notes on the data device for
/// the administrator.
///
/// # Errors
/// If the data device cannot be opened or is not that of the former log, data was lost with that log, or a device fails.
pub(crate) async fn make_successor(
    new: &NewLog,
    former: &FormerLog,
    tree: &LayerTree,
    context: OpenContext<'_>,
) -> Result<Vec<String>, VolumeError> {
    let (on, below) = CacheDevices::data_of(tree)?;
    let device = open_one(context, on)?;
    let data = match below {
        None => device,
        Some(_) => over_volume::recovered_at(context.rt, &device).await?,
    };
    belong_together(tree.own(), on, former.data(), &data.identity)?;
    let [log, data] = new.shared.put_on([new.device.clone(), data]);
    let made = former.make_successor(&*log.device, new.segment, &*data.device, &data.identity);
    made.await.map_err(|error| successor_error(new, error))
}

fn successor_error(new: &NewLog, error: SuccessorError) -> VolumeError {
    let log = new.device.spec.to_string();
    CacheError::Successor { log, error }.into()
}
