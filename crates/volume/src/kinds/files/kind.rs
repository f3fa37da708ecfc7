//! The filesystem as a kind of volume.

use std::rc::Rc;
use std::sync::Arc;

use forebay_device::{Device, DeviceError};
use forebay_rt::Rt;

use super::spec::SPEC;
use super::status::FilesFacts;
use super::{attached, create, offline, render};
use crate::create_spec::CreateSpec;
use crate::error::VolumeError;
use crate::kind::{
    CheckContext, FoundVolume, OpenedVolume, ProgressSink, VolumeCreation, VolumeIdentity,
    VolumeKind,
};
use crate::kind_spec::KindSpec;
use crate::kinds::space::{SIZE, check_sizes, dump_space, erase, find, identify, space_tree};
use crate::layer::LayerFuture;
use crate::one_device::OneDeviceVolume;
use crate::open::{OpenContext, OpenDevice};
use crate::report::{LayerCheckReport, LayerDumpItem, LayerReport};
use crate::tree::{DeviceMap, LayerTree};

/// The filesystem as a kind of volume.
pub(crate) struct FilesKind;

impl VolumeKind for FilesKind {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
    }

    fn check_spec(&self, spec: &CreateSpec) -> Result<(), VolumeError> {
        if spec.devices.get("log").is_some() {
            let text = "a filesystem has only a data device: leave out --log, or put a cache in front of the device \
                        first and make the filesystem on the cached volume";
            return Err(VolumeError::Usage(text.into()));
        }
        if spec.options.get(&SIZE).is_some() {
            let text = "a filesystem has the size of its device: leave out --size";
            return Err(VolumeError::Usage(text.into()));
        }
        spec.device("data")?;
        check_sizes(&spec.options)?;
        let possible = create::geometry(&spec.options);
        possible.map(drop).map_err(VolumeError::Usage)
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
        OneDeviceVolume::open(tree, context, "all files", |data, options, context| {
            Box::pin(async move { attached::attach(data, &options, context).await })
        })
    }

    fn find<'a>(&'a self, device: &'a Rc<dyn Device>) -> LayerFuture<'a, Option<FoundVolume>> {
        Box::pin(async {
            let found = find(&**device).await.filter(|found| found.is_of_files)?;
            let volume = found.volume.ok()?;
            Some(FoundVolume {
                text: format!("the Forebay filesystem {volume} with all its files"),
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
            let report = offline::check(context.rt, own, progress).await?;
            let lines = render::check(&report);
            Ok(LayerCheckReport::new(report.space.verdict, lines, report))
        })
    }

    fn dump<'a>(
        &'a self,
        rt: &'a Rt,
        own: &'a OpenDevice,
        out: &'a mut dyn FnMut(LayerDumpItem),
    ) -> LayerFuture<'a, Result<(), VolumeError>> {
        Box::pin(async move {
            dump_space(own, out).await?;
            offline::dump(rt, own, out).await
        })
    }

    fn erase<'a>(&'a self, own: &'a OpenDevice) -> LayerFuture<'a, Result<(), DeviceError>> {
        Box::pin(erase(&*own.device))
    }

    fn read_report(&self, json: serde_json::Value) -> serde_json::Result<Arc<dyn LayerReport>> {
        let status: FilesFacts = serde_json::from_value(json)?;
        Ok(Arc::new(status))
    }
}
