//! A write cache over a log-structured volume: the cache's data is the volume below, not the device under that volume.
//!
//! The cache does not depend on this. The volume below is recovered first, then the cache on it. The cache moves its
//! tail past destaged data after a flush of the volume below has made the data durable. Drain and close run from the
//! top down. `admission.rs` prevents the cache from acknowledging data that does not fit into the volume below.
//!
//! `create.rs` creates both, `attach.rs` attaches both, as `attached.rs`, and `offline.rs` checks them while they are not
//! attached. For users, this is a write cache: it has no row in the registry.

mod admission;
mod attach;
mod attached;
mod create;
mod offline;

pub(crate) use attach::attach;
pub(crate) use create::{CachedVolumeCreation, is_under_cache, make_log};
pub(crate) use offline::check;

use forebay_dcd::DataIdentity;
use forebay_device::Device;

use crate::DeviceSpec;
use crate::open::OpenDevice;

/// Prefix of a data name in a log if the data is a log-structured volume; the volume's id follows.
const NAME: &str = "vsl-";

/// Returns true if a data name in a log is the name of a log-structured volume.
pub(crate) fn is_space(name: &str) -> bool {
    name.starts_with(NAME)
}

/// Returns a log-structured volume as the data of a cache.
fn as_data(on: &OpenDevice, id: &str, device: std::rc::Rc<dyn Device>) -> OpenDevice {
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
pub(crate) fn in_words(names: &[String], data: &DeviceSpec) -> String {
    match names.iter().find_map(|name| name.strip_prefix(NAME)) {
        Some(id) => format!("the log-structured volume {id}"),
        None => format!("the device {data} itself"),
    }
}
