//! The log-structured volume.
//!
//! - `create.rs` makes a space, and `plan.rs` a volume from its parameters; `measure.rs` measures the speed of its
//!   device.
//! - `attach.rs` attaches a volume as `attached.rs`, over `counted.rs`, which counts requests.
//! - `offline.rs` inspects a volume that is not attached, through an overlay that keeps the writes of recovery in memory.
//! - `resize.rs` extends a volume, and `tune.rs` changes its placement.
//! - `hint.rs` advises on a volume that is refused.
//! - `options.rs` declares the options, `spare.rs` the share that is kept free, and `placement.rs` the placement.
//! - `status.rs` collects the report, and `render.rs` formats it for people.

mod attach;
mod attached;
mod counted;
mod create;
mod error;
mod hint;
mod measure;
mod offline;
pub(crate) mod options;
mod placement;
mod plan;
pub(crate) mod render;
mod resize;
mod spare;
mod status;
mod tune;

use std::rc::Rc;
use std::sync::Arc;

use forebay_device::{Device, DeviceError};
use forebay_rt::Rt;

pub(crate) use attach::{attach, open_space};
pub(crate) use create::{CreatedSpace, SpaceCreateSpec, SpaceLength, comfortable, layout_on, make};
pub(crate) use error::SpaceError;
pub(crate) use forebay_vsl::dump;
pub(crate) use offline::{SpaceCheck, check, erase, find, in_memory, inspect, look, superblocks};
pub use placement::RequestedPlacement;
pub(crate) use plan::{check_sizes, create_spec, make_volume, open_for_space, unused_of};
pub(crate) use resize::resize_room;
pub use spare::{ParseSpareError, SpareShare};
pub(crate) use status::status_of;
pub use status::{SpaceMode, SpaceStatus};
pub(crate) use tune::tune;

use crate::create::CreateSpec;
use crate::kind::{
    AttachContext, AttachedLayer, DeviceRole, FoundVolume, KindRef, OpenContext, OpenedVolume,
    ProgressSink, SuperblockDevice, VolumeCreation, VolumeIdentity, VolumeKind,
};
use crate::layer::LayerFuture;
use crate::open::{OpenDevice, open_one};
use crate::operation_error::OperationError;
use crate::options::{OptionRow, OptionValues};
use crate::registry::DEFAULT_KIND;
use crate::report::{LayerCheckReport, LayerDumpItem, LayerReport};
use crate::tree::{DeviceMap, DeviceOrLayer, LayerTree};
use crate::{VolumeError, VolumeName};

/// The log-structured volume as a kind.
pub(crate) struct SpaceKind;

/// The only device of a log-structured volume or a filesystem.
pub(crate) const ROLES: [DeviceRole; 1] = [DeviceRole {
    name: "data",
    create_help: "",
    target_help: "",
    may_be_layer: false,
}];

/// The layer that `create --log` puts in front of the volume.
static ABOVE: [KindRef; 1] = [DEFAULT_KIND];

impl VolumeKind for SpaceKind {
    fn name(&self) -> &'static str {
        "vsl"
    }

    fn title(&self) -> &'static str {
        "log-structured volume"
    }

    fn label(&self) -> &'static str {
        "volume"
    }

    fn help(&self) -> &'static str {
        "a log-structured volume on the data device, which is overwritten; with --log, a write cache in front of it"
    }

    fn caution(&self) -> &'static str {
        "The data device holds a log-structured volume: do not mount or change it except through Forebay."
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

    fn layers_above(&self, spec: &CreateSpec) -> &'static [KindRef] {
        match spec.devices.get("log") {
            Some(_) => &ABOVE,
            None => &[],
        }
    }

    fn can_be_tuned(&self, _: Option<RequestedPlacement>) -> Result<(), OperationError> {
        Ok(())
    }

    fn check_spec(&self, spec: &CreateSpec) -> Result<(), VolumeError> {
        spec.device("data")?;
        check_sizes(&spec.options, spec.devices.get("log").is_some())
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
        Ok(Box::new(OpenedSpace {
            data: open_one(context, tree.own())?,
            options: tree.options().clone(),
        }))
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
        let tree = space_tree(KindRef(&SpaceKind), own);
        Box::pin(async { Ok(tree) })
    }

    fn check<'a>(
        &'a self,
        rt: &'a Rt,
        own: &'a OpenDevice,
        progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>> {
        Box::pin(async move {
            let checked = check(rt, &own.device, progress).await;
            let report = checked.map_err(|error| SpaceError::not_a_space(&own.spec, error))?;
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

/// Returns the structure of a volume of this kind on a device, with default options.
pub(crate) fn space_tree(kind: KindRef, on: &OpenDevice) -> LayerTree {
    LayerTree::new(kind, [("data", DeviceOrLayer::Device(on.spec.clone()))])
}

/// Returns the identity of the space on a device.
///
/// # Errors
/// If the device holds no space, or cannot be read.
pub(crate) async fn identify(own: &OpenDevice) -> Result<VolumeIdentity, VolumeError> {
    let inspected = inspect(&*own.device).await;
    let superblock = inspected.map_err(|error| SpaceError::not_a_space(&own.spec, error))?;
    let volume = superblock.volume.to_string();
    let name = VolumeName::from_path(own.spec.path());
    Ok(VolumeIdentity {
        name: name.map_or_else(|| volume.clone(), |name| name.to_string()),
        volume,
        clean: false,
        abandoned: false,
    })
}

/// Passes every valid structure of the space on a device to `out`.
///
/// # Errors
/// If the device holds no space, or cannot be read.
pub(crate) async fn dump_space(
    own: &OpenDevice,
    out: &mut dyn FnMut(LayerDumpItem),
) -> Result<(), VolumeError> {
    let mut each = |item| out(LayerDumpItem::new(&item));
    let dumped = dump(&own.device, &mut each).await;
    dumped.map_err(|error| SpaceError::not_a_space(&own.spec, error))
}

/// The opened device of a log-structured volume.
struct OpenedSpace {
    data: OpenDevice,
    options: OptionValues,
}

impl OpenedVolume for OpenedSpace {
    fn own(&self) -> SuperblockDevice {
        SuperblockDevice::new(KindRef(&SpaceKind), self.data.clone())
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
        Some(format!("all data on {}", self.data.spec))
    }

    fn attach(
        self: Box<Self>,
        context: AttachContext,
    ) -> LayerFuture<'static, Result<AttachedLayer, VolumeError>> {
        Box::pin(async move { attach(self.data, &self.options, &context).await })
    }
}
