//! The interface of a kind of volume, and of the states of its volumes: to be created, opened, attached.
//!
//! A kind is a directory under `kinds/` with its [`KindSpec`] and an implementation of [`VolumeKind`], and a row in
//! `registry.rs`. A volume that is to be created is a [`VolumeCreation`]; a volume whose devices are open is an
//! [`OpenedVolume`]; an attached volume is a [`Layer`](crate::Layer).

use std::rc::Rc;
use std::sync::Arc;

use forebay_dcd::{FailedLogRegistry, VolumeId};
use forebay_device::{Device, DeviceError};
use forebay_dfs::FsClock;
use forebay_rt::Rt;

use crate::create_spec::{CreateReport, CreateSpec};
use crate::error::VolumeError;
use crate::kind_spec::KindSpec;
use crate::layer::{Layer, LayerFuture};
use crate::name::VolumeName;
use crate::open::{OpenContext, OpenDevice};
use crate::report::{LayerCheckReport, LayerDumpItem, LayerReport, LayerSalvageReport};
use crate::tree::{DeviceMap, LayerTree};

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
    /// True if the log is marked as failed and abandoned: it is never applied.
    pub abandoned: bool,
    /// Number of times the log was opened; 0 for a volume without a log. A failed-log record names this number.
    pub epoch: u64,
}

impl VolumeIdentity {
    /// Returns true if the log was abandoned, according to its mark or to a failed-log record.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub async fn is_abandoned(
        &self,
        failed_logs: Option<&dyn FailedLogRegistry>,
    ) -> std::io::Result<bool> {
        if self.abandoned {
            return Ok(true);
        }
        match VolumeId::parse(&self.volume) {
            Some(volume) => forebay_dcd::is_recorded(failed_logs, volume, self.epoch).await,
            None => Ok(false),
        }
    }
}

/// The surroundings in which a volume that is not attached is checked.
#[derive(Clone, Copy)]
pub struct CheckContext<'a> {
    /// The executor.
    pub rt: &'a Rt,
    /// Failed-log records on a third device. A recorded log is reported as abandoned.
    pub failed_logs: Option<&'a dyn FailedLogRegistry>,
}

/// A volume recognised on one of its devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundVolume {
    /// Description, as the object of "holds".
    pub text: String,
    /// Description of the volume, for a device with the only copy of data that belongs elsewhere.
    pub unsaved: Option<String>,
    /// The log on the device, if a failed-log record may exist for it.
    pub log: Option<FoundLog>,
}

/// A log recognised on a device, as a failed-log record names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundLog {
    /// The volume's id.
    pub volume: VolumeId,
    /// Number of times the log was opened.
    pub epoch: u64,
    /// Description of the log, as the object of "holds", if a record shows that it was abandoned.
    pub if_abandoned: String,
}

/// Receives the bytes done and the total bytes.
pub type ProgressSink<'a> = &'a mut dyn FnMut(u64, u64);

/// A kind of volume.
pub trait VolumeKind: Sync {
    /// Returns the facts about the kind.
    fn spec(&self) -> &'static KindSpec;

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

    /// Opens the devices of a volume to be created with a layer of this kind in front of it, as [`VolumeKind::plan`] does.
    /// `spec` describes the volume, and also names the devices of this layer.
    ///
    /// # Errors
    /// If a layer of this kind cannot be in front of such a volume, or those of [`VolumeKind::plan`].
    fn plan_above(
        &self,
        spec: &CreateSpec,
        context: OpenContext<'_>,
    ) -> Result<Box<dyn VolumeCreation>, VolumeError> {
        let _ = context;
        let (above, below) = (self.spec().title, spec.kind.title);
        let text = format!("a {above} cannot be in front of a {below}");
        Err(VolumeError::Usage(text))
    }

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
        context: CheckContext<'a>,
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

/// Identity of a volume that is a copy of another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewIdentity {
    /// Name of the volume.
    pub name: VolumeName,
    /// Id: 16 random bytes.
    pub id: [u8; 16],
}

/// The opened devices of a volume.
pub trait OpenedVolume {
    /// Returns the device that identifies the volume.
    fn own(&self) -> &OpenDevice;

    /// Sets all options to their defaults.
    fn reset_options(&mut self);

    /// Returns true if the volume has further devices, which are checked together with its own device. A volume of one
    /// device is checked by [`VolumeKind::check`].
    fn has_several_devices(&self) -> bool {
        false
    }

    /// Checks all devices of a volume that has several, and that they belong to one volume. Changes nothing.
    ///
    /// # Errors
    /// If a device does not hold a Forebay structure, or cannot be read.
    fn check<'a>(
        &'a self,
        context: CheckContext<'a>,
        progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>> {
        let _ = (context, progress);
        let what = self.own().spec.to_string();
        Box::pin(async move { Err(VolumeError::Usage(format!("{what} has no further device"))) })
    }

    /// Describes the data that stays when the volume is removed; `None` if it is lost.
    fn stays(&self) -> Option<String> {
        None
    }

    /// Describes the data that is lost when the volume is removed; `None` if everything stays on the data device.
    fn loses(&self) -> Option<String>;

    /// Erases the structures by which the devices other than the own device are recognised, when the volume is removed
    /// with all its data.
    ///
    /// # Errors
    /// Those of the devices.
    fn erase_others(&self) -> LayerFuture<'_, Result<(), DeviceError>> {
        Box::pin(async { Ok(()) })
    }

    /// Gives the volume another id, and another name if its devices record a name, because its devices are copies of those
    /// of another volume.
    ///
    /// # Errors
    /// If the kind does not support this, the volume must be attached before, or a device fails.
    fn renew_identity(&self, new: NewIdentity) -> LayerFuture<'_, Result<(), VolumeError>> {
        drop(new);
        let what = self.own().spec.to_string();
        Box::pin(async move {
            Err(VolumeError::Usage(format!(
                "the volume on {what} has several parts and cannot get another id: attach the copy on another machine"
            )))
        })
    }

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
        let spec = self.own().spec.to_string();
        Box::pin(async { Err(VolumeError::NothingToSalvage(spec)) })
    }
}
