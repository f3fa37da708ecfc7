//! The log-structured volume as a kind.

use std::rc::Rc;
use std::sync::Arc;

use forebay_device::{Device, DeviceError};
use forebay_rt::Rt;

use super::attach::attach;
use super::error::SpaceVolumeError;
use super::offline::{check, erase, find};
use super::plan::{self, check_sizes};
use super::render;
use super::spec::SPEC;
use super::status::SpaceStatus;
use super::superblock::{dump_space, identify, space_tree};
use crate::create_spec::CreateSpec;
use crate::error::VolumeError;
use crate::kind::{
    CheckContext, FoundVolume, OpenedVolume, ProgressSink, VolumeCreation, VolumeIdentity,
    VolumeKind,
};
use crate::kind_spec::KindSpec;
use crate::layer::LayerFuture;
use crate::one_device::OneDeviceVolume;
use crate::open::{OpenContext, OpenDevice};
use crate::report::{LayerCheckReport, LayerDumpItem, LayerReport};
use crate::tree::{DeviceMap, LayerTree};

/// The log-structured volume as a kind.
pub(crate) struct SpaceKind;

impl VolumeKind for SpaceKind {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
    }

    fn check_spec(&self, spec: &CreateSpec) -> Result<(), VolumeError> {
        spec.device("data")?;
        check_sizes(&spec.options)
    }

    fn plan(
        &self,
        spec: &CreateSpec,
        context: OpenContext<'_>,
    ) -> Result<Box<dyn VolumeCreation>, VolumeError> {
        plan::plan(spec, context)
    }

    fn open(
        &self,
        tree: &LayerTree,
        context: OpenContext<'_>,
    ) -> Result<Box<dyn OpenedVolume>, VolumeError> {
        OneDeviceVolume::open(tree, context, "all data", |data, options, context| {
            Box::pin(async move { attach(data, &options, &context).await })
        })
    }

    fn find<'a>(&'a self, device: &'a Rc<dyn Device>) -> LayerFuture<'a, Option<FoundVolume>> {
        Box::pin(async {
            let found = find(&**device).await?;
            (!found.is_of_files).then(|| FoundVolume {
                text: match found.volume {
                    Ok(id) => format!("the log-structured Forebay volume {id} with all its data"),
                    Err(error) => {
                        format!("a log-structured Forebay volume that cannot be read ({error})")
                    }
                },
                unsaved: None,
                log: None,
            })
        })
    }

    fn identify<'a>(
        &'a self,
        own: &'a OpenDevice,
    ) -> LayerFuture<'a, Result<VolumeIdentity, VolumeError>> {
        Box::pin(identify(own))
    }

    fn tree_of<'a>(
        &'a self,
        own: &'a OpenDevice,
        _named: &'a DeviceMap,
    ) -> LayerFuture<'a, Result<LayerTree, VolumeError>> {
        let tree = space_tree(&SPEC, own);
        Box::pin(async { Ok(tree) })
    }

    fn check<'a>(
        &'a self,
        context: CheckContext<'a>,
        own: &'a OpenDevice,
        progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>> {
        Box::pin(async move {
            let checked = check(context.rt, &own.device, progress).await;
            let report =
                checked.map_err(|error| SpaceVolumeError::not_a_space(&own.spec, error))?;
            let lines = render::check(&report);
            Ok(LayerCheckReport::new(report.verdict, lines, report))
        })
    }

    fn dump<'a>(
        &'a self,
        _rt: &'a Rt,
        own: &'a OpenDevice,
        out: &'a mut dyn FnMut(LayerDumpItem),
    ) -> LayerFuture<'a, Result<(), VolumeError>> {
        Box::pin(dump_space(own, out))
    }

    fn erase<'a>(&'a self, own: &'a OpenDevice) -> LayerFuture<'a, Result<(), DeviceError>> {
        Box::pin(erase(&*own.device))
    }

    fn read_report(&self, json: serde_json::Value) -> serde_json::Result<Arc<dyn LayerReport>> {
        let status: SpaceStatus = serde_json::from_value(json)?;
        Ok(Arc::new(status))
    }
}
