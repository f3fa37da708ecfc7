//! The filesystem: it is on a log-structured space of its own, and is served as files, not as a device.
//!
//! `create.rs` creates a filesystem, `attached.rs` attaches it, and `offline.rs` inspects a filesystem that is not
//! attached. `status.rs` collects its report, and `render.rs` formats reports for people. Reports of the space below come
//! from `space/`.

mod attached;
mod create;
mod error;
mod offline;
mod options;
mod render;
mod status;

use std::rc::Rc;
use std::sync::Arc;

use forebay_device::{Device, DeviceError};
use forebay_rt::Rt;

pub(crate) use error::FilesError;
pub use status::{FilesFacts, FilesystemCounters, FilesystemRequestKind};

use super::space::{self, ROLES, check_sizes, dump_space, erase, find, identify, space_tree};
use crate::create::CreateSpec;
use crate::kind::{
    AttachContext, AttachedLayer, DeviceRole, FoundVolume, KindRef, OpenContext, OpenedVolume,
    ProgressSink, ServedAs, SuperblockDevice, VolumeCreation, VolumeIdentity, VolumeKind,
};
use crate::layer::LayerFuture;
use crate::open::{OpenDevice, open_one};
use crate::operation_error::OperationError;
use crate::options::{OptionRow, OptionValues};
use crate::report::{LayerCheckReport, LayerDumpItem, LayerReport};
use crate::tree::{DeviceMap, LayerTree};
use crate::{RequestedPlacement, VolumeError};

/// The filesystem as a kind.
pub(crate) struct FilesKind;

impl VolumeKind for FilesKind {
    fn name(&self) -> &'static str {
        "fs"
    }

    fn title(&self) -> &'static str {
        "filesystem"
    }

    fn label(&self) -> &'static str {
        "filesystem"
    }

    fn help(&self) -> &'static str {
        "a filesystem on the data device, which is overwritten"
    }

    fn caution(&self) -> &'static str {
        "The data device holds a Forebay filesystem: do not mount or change it except with `forebay mount`."
    }

    fn served_as(&self) -> ServedAs {
        ServedAs::Files
    }

    fn roles(&self) -> &'static [DeviceRole] {
        &ROLES
    }

    fn own_role(&self) -> &'static str {
        "data"
    }

    fn options(&self) -> &'static [OptionRow] {
        &options::ROWS
    }

    fn create_options(&self) -> &'static [OptionRow] {
        &options::CREATE_ROWS
    }

    fn can_be_tuned(&self, placement: Option<RequestedPlacement>) -> Result<(), OperationError> {
        match placement {
            Some(RequestedPlacement::Auto) => Err(OperationError::does_not_choose()),
            _ => Ok(()),
        }
    }

    fn check_spec(&self, spec: &CreateSpec) -> Result<(), VolumeError> {
        if spec.devices.get("log").is_some() {
            let text = "a filesystem has only a data device: leave out --log, or put a cache in front of the device \
                        first and make the filesystem on the cached volume";
            return Err(VolumeError::Usage(text.into()));
        }
        if spec.options.get(&space::options::SIZE).is_some() {
            let text = "a filesystem has the size of its device: leave out --size";
            return Err(VolumeError::Usage(text.into()));
        }
        spec.device("data")?;
        check_sizes(&spec.options, false)?;
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
        Ok(Box::new(OpenedFiles {
            data: open_one(context, tree.own())?,
            options: tree.options().clone(),
        }))
    }

    fn find<'a>(&'a self, device: &'a Rc<dyn Device>) -> LayerFuture<'a, Option<FoundVolume>> {
        Box::pin(async {
            let found = find(&**device).await.filter(|found| found.is_of_files)?;
            let volume = found.volume.ok()?;
            Some(FoundVolume {
                text: format!("the Forebay filesystem {volume} with all its files"),
                unsaved: None,
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
        let tree = space_tree(KindRef(&FilesKind), own);
        Box::pin(async { Ok(tree) })
    }

    fn check<'a>(
        &'a self,
        rt: &'a Rt,
        own: &'a OpenDevice,
        progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>> {
        Box::pin(async move {
            let report = offline::check(rt, own, progress).await?;
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

/// The opened device of a filesystem.
struct OpenedFiles {
    data: OpenDevice,
    options: OptionValues,
}

impl OpenedVolume for OpenedFiles {
    fn own(&self) -> SuperblockDevice {
        SuperblockDevice::new(KindRef(&FilesKind), self.data.clone())
    }

    fn reset_options(&mut self) {
        self.options = OptionValues::default();
    }

    fn check<'a>(
        &'a self,
        rt: &'a Rt,
        progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>> {
        Box::pin(async move { self.own().check(rt, progress).await })
    }

    fn loses(&self) -> Option<String> {
        Some(format!("all files on {}", self.data.spec))
    }

    fn attach(
        self: Box<Self>,
        context: AttachContext,
    ) -> LayerFuture<'static, Result<AttachedLayer, VolumeError>> {
        Box::pin(async move { attached::attach(self.data, &self.options, context).await })
    }
}
