//! The write cache as a kind of volume.

use std::rc::Rc;
use std::sync::Arc;

use forebay_device::{Device, DeviceError};
use forebay_rt::Rt;

use super::data_name::is_space;
use super::devices::CacheDevices;
use super::error::CacheError;
use super::log::{cache_tree, cached_volume_tree};
use super::offline::{self, check_log, inspect};
use super::spec::SPEC;
use super::{create, over_volume};
use crate::create_spec::CreateSpec;
use crate::error::VolumeError;
use crate::kind::{
    CheckContext, FoundVolume, OpenedVolume, ProgressSink, VolumeCreation, VolumeIdentity,
    VolumeKind,
};
use crate::kind_spec::KindSpec;
use crate::layer::LayerFuture;
use crate::open::{OpenContext, OpenDevice};
use crate::report::{LayerCheckReport, LayerDumpItem, LayerReport};
use crate::tree::{DeviceMap, LayerTree};

/// The write cache as a kind of volume.
pub(crate) struct CacheKind;

impl VolumeKind for CacheKind {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
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

    fn plan_above(
        &self,
        spec: &CreateSpec,
        context: OpenContext<'_>,
    ) -> Result<Box<dyn VolumeCreation>, VolumeError> {
        over_volume::plan(spec, context)
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
                epoch: info.epoch,
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
        context: CheckContext<'a>,
        own: &'a OpenDevice,
        progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>> {
        Box::pin(async move {
            let checked = check_log(own, None, context.failed_logs, progress).await;
            Ok(checked?.into_report())
        })
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
