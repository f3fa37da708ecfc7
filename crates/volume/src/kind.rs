//! The interface of a kind of volume, and of its three states: to be created, opened, attached.
//!
//! A kind is a directory under `kinds/` with an implementation of [`VolumeKind`], and a row in `registry.rs`. Commands
//! and daemons use this interface and do not depend on a particular kind. A volume that is to be created is a
//! [`VolumeCreation`]; a volume whose devices are open is an [`OpenedVolume`]; an attached volume is a
//! [`Layer`](crate::Layer).

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use forebay_dcd::FailedLogRegistry;
use forebay_device::{Device, DeviceError};
use forebay_dfs::FsClock;
use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::Rt;

use crate::create::{CreateReport, CreateSpec};
use crate::layer::LayerFuture;
use crate::open::OpenDevice;
use crate::operation_error::OperationError;
use crate::options::OptionRow;
use crate::registry::{self, UnknownKind};
use crate::report::{LayerCheckReport, LayerDumpItem, LayerReport, LayerSalvageReport};
use crate::tree::{DeviceMap, LayerTree};
use crate::{DeviceSpec, Layer, RequestedPlacement, VolumeError, VolumeName};

/// Form in which a volume is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServedAs {
    /// A block device, and an NBD export.
    BlockDevice,
    /// A mounted filesystem.
    Files,
}

/// A device of a volume, as a kind declares it.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRole {
    /// Key in the configuration file; with two dashes before it, the option of the command line.
    pub name: &'static str,
    /// Help for the option of `create`.
    pub create_help: &'static str,
    /// Help for the option that names an existing volume by its device.
    pub target_help: &'static str,
    /// True if the role may be filled by another layer instead of a device.
    pub may_be_layer: bool,
}

/// The surroundings in which devices are opened.
#[derive(Clone, Copy)]
pub struct OpenContext<'a> {
    /// The executor.
    pub rt: &'a Rt,
    /// The ring that carries out requests.
    pub ring: &'a Rc<IoRing>,
    /// The mode in which devices are opened.
    pub options: DeviceOpenOptions,
}

/// The surroundings in which a volume is created.
#[derive(Clone, Copy)]
pub struct CreateContext<'a> {
    /// The executor.
    pub rt: &'a Rt,
    /// Name of the volume.
    pub name: &'a VolumeName,
    /// Id of the volume: 16 random bytes.
    pub id: [u8; 16],
    /// Returns the time.
    pub clock: &'a FsClock,
}

/// The surroundings in which a volume is attached.
#[derive(Clone)]
pub struct AttachContext {
    /// The executor.
    pub rt: Rt,
    /// Name that the volume is attached under.
    pub name: String,
    /// Faults that the administrator accepts.
    pub accept: AcceptedFaults,
    /// Failed-log records on a third device, for logs that failed and could not be marked so themselves.
    pub failed_logs: Option<Rc<dyn FailedLogRegistry>>,
    /// Returns the time.
    pub clock: FsClock,
}

/// Faults that the administrator accepts when attaching.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AcceptedFaults {
    /// Flushed data is missing.
    pub loss: bool,
    /// The data device differs from the one that the volume records.
    pub changed: bool,
}

/// An attached volume.
pub struct AttachedLayer {
    /// The uppermost layer.
    pub layer: Rc<dyn Layer>,
    /// Notes for the administrator about the state in which the volume was found.
    pub notes: Vec<String>,
}

/// Identity of a volume, as recorded on its device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeIdentity {
    /// The volume's name. If the device does not record a name, a name made from the device's name.
    pub name: String,
    /// The volume's id.
    pub volume: String,
    /// True if all data is elsewhere, so that the device can be erased without being read.
    pub clean: bool,
    /// True if the log failed and was abandoned: it is never applied.
    pub abandoned: bool,
}

/// A volume recognised on one of its devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundVolume {
    /// Description, as the object of "holds".
    pub text: String,
    /// Description of the volume, for a device with the only copy of data that belongs elsewhere.
    pub unsaved: Option<String>,
}

/// Receives the bytes done and the total bytes.
pub type ProgressSink<'a> = &'a mut dyn FnMut(u64, u64);

/// A kind of volume.
pub trait VolumeKind: Sync {
    /// Returns the name: the value of `kind` in a configuration file, and of `create --volume`.
    fn name(&self) -> &'static str;

    /// Returns the name in sentences, without an article.
    fn title(&self) -> &'static str;

    /// Returns the name as a label of metrics, and as `layer` in reports.
    fn label(&self) -> &'static str {
        self.name()
    }

    /// Returns a description for the help of `create --volume`.
    fn help(&self) -> &'static str;

    /// Returns the comment in a configuration file that warns of other uses of the devices.
    fn caution(&self) -> &'static str;

    /// Returns the form in which a volume of this kind is served.
    fn served_as(&self) -> ServedAs {
        ServedAs::BlockDevice
    }

    /// Returns the devices of a volume of this kind, in the order of the configuration file.
    fn roles(&self) -> &'static [DeviceRole];

    /// Returns the role of the device that is formatted, and that identifies the volume.
    fn own_role(&self) -> &'static str;

    /// Returns the role of the device or layer that finally holds the data of clients.
    fn data_role(&self) -> &'static str {
        "data"
    }

    /// Returns true if data is at the same address on the data device as in the volume.
    fn keeps_addresses(&self) -> bool {
        false
    }

    /// Returns the options of an attached volume, which are also keys of its configuration file.
    fn options(&self) -> &'static [OptionRow];

    /// Returns the options that only apply while a volume is created.
    fn create_options(&self) -> &'static [OptionRow] {
        &[]
    }

    /// Returns the further layers that `spec` asks for, whose options are therefore permitted.
    fn layers_above(&self, spec: &CreateSpec) -> &'static [KindRef] {
        let _ = spec;
        &[]
    }

    /// Checks that a volume of this kind supports a placement; `None` only asks for the present one.
    ///
    /// # Errors
    /// If it does not, the error of [`Layer::tune`].
    fn can_be_tuned(&self, placement: Option<RequestedPlacement>) -> Result<(), OperationError> {
        let _ = placement;
        Err(OperationError::places_nothing())
    }

    /// Checks the parameters of a volume to be created, as far as is possible without its devices.
    ///
    /// # Errors
    /// If a device is missing, or a parameter does not fit.
    fn check_spec(&self, spec: &CreateSpec) -> Result<(), VolumeError>;

    /// Opens the devices of a volume to be created, and checks that they are suitable. Changes nothing.
    ///
    /// # Errors
    /// If a device cannot be opened or is unsuitable.
    fn plan(
        &self,
        spec: &CreateSpec,
        context: OpenContext<'_>,
    ) -> Result<Box<dyn VolumeCreation>, VolumeError>;

    /// Opens the devices of a volume.
    ///
    /// # Errors
    /// If a device cannot be opened, or devices do not go together.
    fn open(
        &self,
        tree: &LayerTree,
        context: OpenContext<'_>,
    ) -> Result<Box<dyn OpenedVolume>, VolumeError>;

    /// Returns the volume of this kind on a device. A damaged volume that is still recognisable counts.
    fn find<'a>(&'a self, device: &'a Rc<dyn Device>) -> LayerFuture<'a, Option<FoundVolume>>;

    /// Returns the identity of the volume whose own device is `own`.
    ///
    /// # Errors
    /// If the device holds no volume of this kind, or cannot be read.
    fn identify<'a>(
        &'a self,
        own: &'a OpenDevice,
    ) -> LayerFuture<'a, Result<VolumeIdentity, VolumeError>>;

    /// Returns the structure of the volume whose own device is `own`, with default options. Further devices are those
    /// in `named`, else those that the own device records.
    ///
    /// # Errors
    /// If the device holds no volume of this kind, cannot be read, or does not record a device.
    fn tree_of<'a>(
        &'a self,
        own: &'a OpenDevice,
        named: &'a DeviceMap,
    ) -> LayerFuture<'a, Result<LayerTree, VolumeError>>;

    /// Checks the own device by itself. Changes nothing.
    ///
    /// # Errors
    /// If the device holds no volume of this kind, or cannot be read.
    fn check<'a>(
        &'a self,
        rt: &'a Rt,
        own: &'a OpenDevice,
        progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>>;

    /// Passes every valid structure on the own device to `out`. Changes nothing.
    ///
    /// # Errors
    /// If the device holds no volume of this kind, or cannot be read. Structures before the error have been passed.
    fn dump<'a>(
        &'a self,
        rt: &'a Rt,
        own: &'a OpenDevice,
        out: &'a mut dyn FnMut(LayerDumpItem),
    ) -> LayerFuture<'a, Result<(), VolumeError>>;

    /// Erases the structures by which the volume is recognised.
    ///
    /// # Errors
    /// Those of the device.
    fn erase<'a>(&'a self, own: &'a OpenDevice) -> LayerFuture<'a, Result<(), DeviceError>>;

    /// Reads the report of an attached volume of this kind from its JSON form.
    ///
    /// # Errors
    /// If a field is missing or has a wrong value.
    fn read_report(&self, json: serde_json::Value) -> serde_json::Result<Arc<dyn LayerReport>>;
}

/// The opened devices of a volume to be created; all are still unchanged.
pub trait VolumeCreation {
    /// Returns the devices that will be formatted, each with its role; the device that identifies the volume first.
    fn formatted(&self) -> Vec<(&OpenDevice, &'static str)>;

    /// Returns the device that should have no holes if it is a file. A write to a log is acknowledged when it is
    /// durable, and allocating blocks of the file first takes longer.
    fn to_fill(&self) -> Option<&OpenDevice> {
        None
    }

    /// Creates the volume.
    ///
    /// # Errors
    /// If a device fails.
    fn create<'a>(
        &'a self,
        context: CreateContext<'a>,
    ) -> LayerFuture<'a, Result<CreateReport, VolumeError>>;
}

/// The opened devices of a volume.
pub trait OpenedVolume {
    /// Returns the device that identifies the volume.
    fn own(&self) -> SuperblockDevice;

    /// Sets all options to their defaults.
    fn reset_options(&mut self);

    /// Checks all devices, and that they belong to one volume. Changes nothing.
    ///
    /// # Errors
    /// If a device does not hold a Forebay structure, or cannot be read.
    fn check<'a>(
        &'a self,
        rt: &'a Rt,
        progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>>;

    /// Describes the data that stays when the volume is removed; `None` if it is lost.
    fn stays(&self) -> Option<String> {
        None
    }

    /// Describes the data that is lost when the volume is removed; `None` if everything stays on the data device.
    fn loses(&self) -> Option<String>;

    /// Recovers the volume and attaches it.
    ///
    /// # Errors
    /// If the volume cannot be attached, or attaching could lose something that the administrator does not accept.
    fn attach(
        self: Box<Self>,
        context: AttachContext,
    ) -> LayerFuture<'static, Result<AttachedLayer, VolumeError>>;

    /// Writes to the data device the data that was lost with an abandoned log, as far as the log can be read now.
    ///
    /// # Errors
    /// If the volume has no log, the log was not abandoned or belongs to another data device, or a device fails.
    fn salvage(&self) -> LayerFuture<'_, Result<LayerSalvageReport, VolumeError>> {
        let spec = self.own().spec().to_string();
        Box::pin(async { Err(VolumeError::NothingToSalvage(spec)) })
    }
}

/// A registered kind of volume.
#[derive(Clone, Copy)]
pub struct KindRef(pub(crate) &'static dyn VolumeKind);

impl std::ops::Deref for KindRef {
    type Target = dyn VolumeKind;

    fn deref(&self) -> &(dyn VolumeKind + 'static) {
        self.0
    }
}

impl PartialEq for KindRef {
    fn eq(&self, other: &KindRef) -> bool {
        self.name() == other.name()
    }
}

impl Eq for KindRef {}

impl fmt::Debug for KindRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for KindRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for KindRef {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<KindRef, UnknownKind> {
        registry::kind_named(text)
    }
}

/// The device that identifies a volume, for commands that need no other device of the volume.
#[derive(Clone)]
pub struct SuperblockDevice {
    kind: KindRef,
    part: OpenDevice,
}

impl SuperblockDevice {
    pub(crate) fn new(kind: KindRef, part: OpenDevice) -> SuperblockDevice {
        SuperblockDevice { kind, part }
    }

    /// Opens the device. `kind` is the kind that the device is expected to hold.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(
        (kind, spec): (KindRef, &DeviceSpec),
        context: OpenContext<'_>,
    ) -> Result<SuperblockDevice, VolumeError> {
        let part = crate::open::open_one(context, spec)?;
        Ok(SuperblockDevice { kind, part })
    }

    /// Returns the device as given.
    pub fn spec(&self) -> &DeviceSpec {
        &self.part.spec
    }

    /// Returns the kind of the volume: the expected kind, unless the device holds another kind that is identified by a
    /// device in the same role. For example, `--data` names a log-structured volume or a filesystem.
    async fn kind(&self) -> KindRef {
        let expected = std::iter::once(self.kind);
        let same = registry::kinds().filter(|kind| kind.own_role() == self.kind.own_role());
        for kind in expected.chain(same) {
            if kind.find(&self.part.device).await.is_some() {
                return kind;
            }
        }
        self.kind
    }

    /// Returns the identity of the volume.
    ///
    /// # Errors
    /// If the device holds no volume, or cannot be read.
    pub async fn inspect(&self) -> Result<VolumeIdentity, VolumeError> {
        self.kind().await.identify(&self.part).await
    }

    /// Returns the identity and the structure of the volume, as far as this device records them. Devices in `named`
    /// replace the recorded ones.
    ///
    /// # Errors
    /// If the device holds no volume, cannot be read, or does not record a device.
    pub async fn tree(
        &self,
        named: &DeviceMap,
    ) -> Result<(VolumeIdentity, LayerTree), VolumeError> {
        let kind = self.kind().await;
        let identity = kind.identify(&self.part).await?;
        Ok((identity, kind.tree_of(&self.part, named).await?))
    }

    /// Checks the device by itself. Changes nothing.
    ///
    /// # Errors
    /// If the device does not hold a Forebay structure, or cannot be read.
    pub async fn check(
        &self,
        rt: &Rt,
        progress: ProgressSink<'_>,
    ) -> Result<LayerCheckReport, VolumeError> {
        self.kind().await.check(rt, &self.part, progress).await
    }

    /// Passes every valid structure to `out`. Changes nothing.
    ///
    /// # Errors
    /// If the device does not hold a Forebay structure, or cannot be read. Structures before the error have been
    /// passed.
    pub async fn dump(
        &self,
        rt: &Rt,
        out: &mut dyn FnMut(LayerDumpItem),
    ) -> Result<(), VolumeError> {
        self.kind().await.dump(rt, &self.part, out).await
    }

    /// Erases the structures by which the volume is recognised.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn erase(&self) -> Result<(), DeviceError> {
        self.kind().await.erase(&self.part).await
    }
}
