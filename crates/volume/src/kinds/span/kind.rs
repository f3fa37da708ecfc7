//! The span as a kind of volume.

use std::rc::Rc;
use std::sync::Arc;

use forebay_device::{Device, DeviceError};
use forebay_rt::Rt;
use forebay_segment_log::read_copies;

use super::create;
use super::devices::{SpanDevices, check_first, erase, superblock};
use super::error::SpanError;
use super::format::SpanSuperblock;
use super::report::SpanStatus;
use super::spec::{FIRST, SECOND, SPEC};
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
use crate::tree::{DeviceMap, DeviceOrLayer, LayerTree};

/// The span as a kind of volume.
pub(crate) struct SpanKind;

impl VolumeKind for SpanKind {
    fn spec(&self) -> &'static KindSpec {
        &SPEC
    }

    fn check_spec(&self, spec: &CreateSpec) -> Result<(), VolumeError> {
        spec.device(FIRST)?;
        spec.device(SECOND).map(drop)
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
        Ok(Box::new(SpanDevices::open(tree, context)?))
    }

    fn find<'a>(&'a self, device: &'a Rc<dyn Device>) -> LayerFuture<'a, Option<FoundVolume>> {
        Box::pin(async {
            let copies = read_copies::<SpanSuperblock>(&**device).await.ok()?;
            let volume = copies.newest_readable().ok()?.volume;
            Some(FoundVolume {
                text: format!("a part of the Forebay span {volume} with its data"),
                unsaved: None,
                log: None,
            })
        })
    }

    fn identify<'a>(
        &'a self,
        own: &'a OpenDevice,
    ) -> LayerFuture<'a, Result<VolumeIdentity, VolumeError>> {
        Box::pin(async {
            let superblock = superblock(own, FIRST).await?;
            Ok(VolumeIdentity {
                name: superblock.name,
                volume: superblock.volume.to_string(),
                clean: false,
                abandoned: false,
                epoch: 0,
            })
        })
    }

    fn tree_of<'a>(
        &'a self,
        own: &'a OpenDevice,
        named: &'a DeviceMap,
    ) -> LayerFuture<'a, Result<LayerTree, VolumeError>> {
        Box::pin(async {
            let superblock = superblock(own, FIRST).await?;
            let recorded = || superblock.second.parse().ok();
            let second = named.get(SECOND).cloned().or_else(recorded);
            let path = own.spec.to_string();
            let second = second.ok_or(SpanError::NotRemembered { path })?;
            let [first, second] = [own.spec.clone(), second].map(DeviceOrLayer::Device);
            Ok(LayerTree::new(&SPEC, [(FIRST, first), (SECOND, second)]))
        })
    }

    fn check<'a>(
        &'a self,
        _context: CheckContext<'a>,
        own: &'a OpenDevice,
        _progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>> {
        Box::pin(async { Ok(check_first(own).await?.into_report()) })
    }

    fn dump<'a>(
        &'a self,
        _rt: &'a Rt,
        own: &'a OpenDevice,
        out: &'a mut dyn FnMut(LayerDumpItem),
    ) -> LayerFuture<'a, Result<(), VolumeError>> {
        Box::pin(async move {
            let superblock = superblock(own, FIRST).await?;
            out(LayerDumpItem(serde_json::json!({
                "kind": "superblock",
                "volume": superblock.volume.to_string(),
                "name": superblock.name,
                "index": superblock.index,
                "block_size": superblock.block_size,
                "lens": superblock.lens,
                "second": superblock.second,
            })));
            Ok(())
        })
    }

    fn erase<'a>(&'a self, own: &'a OpenDevice) -> LayerFuture<'a, Result<(), DeviceError>> {
        Box::pin(erase(&*own.device))
    }

    fn read_report(&self, json: serde_json::Value) -> serde_json::Result<Arc<dyn LayerReport>> {
        let status: SpanStatus = serde_json::from_value(json)?;
        Ok(Arc::new(status))
    }
}
