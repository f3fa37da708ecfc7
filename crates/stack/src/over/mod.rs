//! A write cache over a log-structured volume: its data is the volume below, and not the device that this lies on.
//!
//! The cache knows nothing of that. The volume below is recovered first, and then the cache on it; the cache moves its
//! tail behind what it brought home when a flush of the volume below has made that durable; and they are drained and
//! closed from above. `admission.rs` keeps the cache from acknowledging what there is no room for below.
//!
//! `attach.rs` takes both into use, as `in_use.rs`; `offline.rs` looks at them when they are not.

mod admission;
mod attach;
mod in_use;
mod offline;

pub(crate) use attach::attach;
pub(crate) use offline::{check, create, is_under_cache};

use forebay_dcd::DataIdentity;
use forebay_device::Device;

use crate::{Part, Spec};

/// What a log calls its data begins like this if that is a log-structured volume; its id follows.
const NAME: &str = "vsl-";

/// Whether what a log calls its data is the name of a log-structured volume.
pub(crate) fn is_space(name: &str) -> bool {
    name.starts_with(NAME)
}

/// A log-structured volume, as the data of a cache.
fn as_data(on: &Part, id: &str, device: std::rc::Rc<dyn Device>) -> Part {
    Part {
        identity: DataIdentity {
            len: device.geometry().len,
            path: on.identity.path.clone(),
            names: vec![format!("{NAME}{id}")],
        },
        device,
        ..on.clone()
    }
}

/// What a log is in front of, in words.
pub(crate) fn in_words(names: &[String], data: &Spec) -> String {
    match names.iter().find_map(|name| name.strip_prefix(NAME)) {
        Some(id) => format!("the log-structured volume {id}"),
        None => format!("the device {data} itself"),
    }
}
