//! The write cache: a log in front of a data device, or in front of a log-structured volume.
//!
//! `create.rs` makes a cache, `opened.rs` has the opened devices of a cache, `attach.rs` attaches it (`attached.rs`).
//! `offline.rs` inspects the log of a cache that is not attached. `render.rs` formats the findings of both for people,
//! and `vitals.rs` selects the figures that are worth watching. A cache over a log-structured volume is in
//! `cached_volume/`.

mod attach;
mod attached;
mod create;
mod error;
mod offline;
mod opened;
pub(crate) mod options;
mod render;
mod report;
mod vitals;

use std::rc::Rc;
use std::sync::Arc;

use forebay_device::{Device, DeviceError};
use forebay_rt::Rt;

pub(crate) use attach::attach;
pub(crate) use create::{CacheCreateSpec, LOG_SEGMENT, cache_report, make_log, open_with_log};
pub(crate) use error::CacheError;
pub use forebay_dcd::{FailedLogFuture, FailedLogRegistry, VolumeId};
pub(crate) use offline::{check_log, inspect};
pub(crate) use opened::CacheDevices;

use super::cached_volume::is_space;
use crate::create::CreateSpec;
use crate::kind::{
    DeviceRole, FoundVolume, KindRef, OpenContext, OpenedVolume, ProgressSink, VolumeCreation,
    VolumeIdentity, VolumeKind,
};
use crate::layer::LayerFuture;
use crate::open::OpenDevice;
use crate::options::OptionRow;
use crate::registry::LOG_STRUCTURED;
use crate::report::{LayerCheckReport, LayerDumpItem, LayerReport};
use crate::tree::{DeviceMap, DeviceOrLayer, LayerTree};
use crate::{DeviceSpec, VolumeError};

/// The write cache as a kind of volume.
pub(crate) struct CacheKind;

const ROLES: [DeviceRole; 2] = [
    DeviceRole {
        name: "data",
        create_help: "The data device: a block device, a regular file, or a part of either (PATH@OFFSET+LENGTH). With \
                      model:MODEL: in front, as slow as that disk.",
        target_help: "With --log: the data device, if it is not at the path recorded in the log. Alone: the device of a \
                      log-structured volume or a filesystem.",
        may_be_layer: true,
    },
    DeviceRole {
        name: "log",
        create_help: "The log device, which is overwritten. With --volume vsl: the log of a write cache in front of the \
                      volume. Without --volume, if the data device holds a vsl volume, the cache is in front of that \
                      volume, which keeps its data.",
        target_help: "The log device of a volume without a configuration file.",
        may_be_layer: false,
    },
];

/// Returns a cache over two devices, with default options.
pub(crate) fn cache_tree(log: DeviceSpec, data: DeviceSpec) -> LayerTree {
    tree_over(log, DeviceOrLayer::Device(data))
}

/// Returns a cache over a log-structured volume, both with default options.
pub(crate) fn cached_volume_tree(log: DeviceSpec, data: DeviceSpec) -> LayerTree {
    let below = [("data", DeviceOrLayer::Device(data))];
    let below = LayerTree::new(LOG_STRUCTURED, below);
    tree_over(log, DeviceOrLayer::Layer(Box::new(below)))
}

fn tree_over(log: DeviceSpec, data: DeviceOrLayer) -> LayerTree {
    let children = [("data", data), ("log", DeviceOrLayer::Device(log))];
    LayerTree::new(KindRef(&CacheKind), children)
}

impl VolumeKind for CacheKind {
    fn name(&self) -> &'static str {
        "cache"
    }

    fn title(&self) -> &'static str {
        "write cache"
    }

    fn help(&self) -> &'static str {
        "a write cache: the log in front of the data device"
    }

    fn caution(&self) -> &'static str {
        "Only the log device was formatted. While the log is dirty, do not mount or change the data device except \
         through Forebay."
    }

    fn roles(&self) -> &'static [DeviceRole] {
        &ROLES
    }

    fn own_role(&self) -> &'static str {
        "log"
    }

    fn keeps_addresses(&self) -> bool {
        true
    }

    fn options(&self) -> &'static [OptionRow] {
        &options::ROWS
    }

    fn create_options(&self) -> &'static [OptionRow] {
        &options::CREATE_ROWS
    }

    fn check_spec(&self, spec: &CreateSpec) -> Result<(), VolumeError> {
        if spec.devices.get("log").is_none() {
            let text = "a write cache needs a log device: name it with --log PATH (or make a log-structured volume, \
                        which needs no log, with --volume vsl)";
            return Err(VolumeError::Usage(text.into()));
        }
        spec.device("data").map(|_| ())
    }

    fn plan(
        &self,
        spec: &CreateSpec,
        context: OpenContext<'_>,
    ) -> Result<Box<dyn VolumeCreation>, VolumeError> {
        create::plan(spec, context)
    }

    fn open(
        &self,
        tree: &LayerTree,
        context: OpenContext<'_>,
    ) -> Result<Box<dyn OpenedVolume>, VolumeError> {
        Ok(Box::new(CacheDevices::open(tree, context)?))
    }

    fn find<'a>(&'a self, device: &'a Rc<dyn Device>) -> LayerFuture<'a, Option<FoundVolume>> {
        Box::pin(offline::find(device))
    }

    fn identify<'a>(
        &'a self,
        own: &'a OpenDevice,
    ) -> LayerFuture<'a, Result<VolumeIdentity, VolumeError>> {
        Box::pin(async {
            let info = inspect(own).await?;
            Ok(VolumeIdentity {
                name: info.name,
                volume: info.volume,
                clean: info.clean,
                abandoned: info.abandoned,
            })
        })
    }

    fn tree_of<'a>(
        &'a self,
        own: &'a OpenDevice,
        named: &'a DeviceMap,
    ) -> LayerFuture<'a, Result<LayerTree, VolumeError>> {
        Box::pin(async {
            let info = inspect(own).await?;
            let log = own.spec.clone();
            let data = match named.get("data") {
                Some(data) => data.clone(),
                None => info
                    .data
                    .path
                    .parse()
                    .map_err(|error| CacheError::Remembered {
                        log: log.to_string(),
                        path: info.data.path.clone(),
                        error,
                    })?,
            };
            Ok(if info.data.names.iter().any(|name| is_space(name)) {
                cached_volume_tree(log, data)
            } else {
                cache_tree(log, data)
            })
        })
    }

    fn check<'a>(
        &'a self,
        _rt: &'a Rt,
        own: &'a OpenDevice,
        progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>> {
        Box::pin(async { Ok(check_log(own, None, progress).await?.into_report()) })
    }

    fn dump<'a>(
        &'a self,
        _rt: &'a Rt,
        own: &'a OpenDevice,
        out: &'a mut dyn FnMut(LayerDumpItem),
    ) -> LayerFuture<'a, Result<(), VolumeError>> {
        Box::pin(offline::dump(own, out))
    }

    fn erase<'a>(&'a self, own: &'a OpenDevice) -> LayerFuture<'a, Result<(), DeviceError>> {
        Box::pin(forebay_dcd::erase(Rc::clone(&own.device)))
    }

    fn read_report(&self, json: serde_json::Value) -> serde_json::Result<Arc<dyn LayerReport>> {
        let status: forebay_dcd::DcdStatus = serde_json::from_value(json)?;
        Ok(Arc::new(status))
    }
}
