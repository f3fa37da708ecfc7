//! The names of data in a log: the data of a cache over a log-structured volume is named by the volume's id.

use std::rc::Rc;

use forebay_dcd::DataIdentity;
use forebay_device::Device;

use super::error::CacheError;
use crate::error::VolumeError;
use crate::open::OpenDevice;
use crate::spec::DeviceSpec;

/// Prefix of a data name in a log if the data is a log-structured volume; the volume's id follows.
const NAME: &str = "vsl-";

/// Returns true if a data name in a log is the name of a log-structured volume.
pub(super) fn is_space(name: &str) -> bool {
    name.starts_with(NAME)
}

/// Returns a log-structured volume as the data of a cache.
pub(super) fn as_data(on: &OpenDevice, id: &str, device: Rc<dyn Device>) -> OpenDevice {
    OpenDevice {
        identity: DataIdentity {
            len: device.geometry().len,
            path: on.identity.path.clone(),
            names: vec![format!("{NAME}{id}")],
        },
        device,
        ..on.clone()
    }
}

/// Describes the data that a log belongs to.
fn in_words(names: &[String], data: &DeviceSpec) -> String {
    match names.iter().find_map(|name| name.strip_prefix(NAME)) {
        Some(id) => format!("the log-structured volume {id}"),
        None => format!("the device {data} itself"),
    }
}

/// Checks that the data on the device `on` is that of the log, if one of the two is a log-structured volume.
///
/// # Errors
/// If it is not.
pub(super) fn belong_together(
    log: &DeviceSpec,
    on: &DeviceSpec,
    known: &DataIdentity,
    found: &DataIdentity,
) -> Result<(), VolumeError> {
    let mut names = known.names.iter().chain(&found.names);
    if !names.any(|name| is_space(name)) || found.shares_name(known) {
        return Ok(());
    }
    Err(CacheError::OtherBelow {
        log: log.to_string(),
        data: on.to_string(),
        want: in_words(&known.names, on),
        have: in_words(&found.names, on),
    }
    .into())
}
