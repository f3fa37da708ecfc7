//! A volume of any kind whose devices, or whose own device, are open.

use forebay_device::DeviceError;
use forebay_rt::Rt;

use crate::error::VolumeError;
use crate::kind::{
    AttachContext, AttachedLayer, CheckContext, NewIdentity, OpenedVolume, ProgressSink,
    VolumeIdentity, VolumeKind,
};
use crate::kind_spec::KindSpec;
use crate::open::{OpenContext, OpenDevice, open_one};
use crate::registry::{kind_of, kinds};
use crate::report::{LayerCheckReport, LayerDumpItem, LayerSalvageReport};
use crate::spec::DeviceSpec;
use crate::tree::{DeviceMap, LayerTree};

/// A volume whose devices are open.
pub struct OpenVolume {
    kind: &'static KindSpec,
    opened: Box<dyn OpenedVolume>,
}

/// Opens the devices of a volume.
///
/// # Errors
/// If a device cannot be opened, or devices do not go together.
pub fn open(tree: &LayerTree, context: OpenContext<'_>) -> Result<OpenVolume, VolumeError> {
    let kind = tree.kind();
    let opened = kind_of(kind).open(tree, context)?;
    Ok(OpenVolume { kind, opened })
}

/// Returns the device that identifies a volume named by these devices, and the kind that it is expected to hold: the
/// first kind whose own role is filled.
pub fn own_device(devices: &DeviceMap) -> Option<(&'static KindSpec, &DeviceSpec)> {
    kinds().find_map(|kind| Some((kind.spec(), devices.get(kind.spec().own_role)?)))
}

impl OpenVolume {
    /// Returns the device that identifies the volume.
    pub fn own(&self) -> SuperblockDevice {
        SuperblockDevice {
            kind: self.kind,
            part: self.opened.own().clone(),
        }
    }

    /// Sets all options to their defaults.
    pub fn reset_options(&mut self) {
        self.opened.reset_options();
    }

    /// Checks all devices, and that they belong to one volume. Changes nothing.
    ///
    /// # Errors
    /// If a device does not hold a Forebay structure, or cannot be read.
    pub async fn check(
        &self,
        context: CheckContext<'_>,
        progress: ProgressSink<'_>,
    ) -> Result<LayerCheckReport, VolumeError> {
        if self.opened.has_several_devices() {
            return self.opened.check(context, progress).await;
        }
        self.own().check(context, progress).await
    }

    /// Describes the data that stays when the volume is removed; `None` if it is lost.
    pub fn stays(&self) -> Option<String> {
        self.opened.stays()
    }

    /// Describes the data that is lost when the volume is removed; `None` if everything stays on the data device.
    pub fn loses(&self) -> Option<String> {
        self.opened.loses()
    }

    /// Erases the structures by which the devices other than the own device are recognised, when the volume is removed
    /// with all its data.
    ///
    /// # Errors
    /// Those of the devices.
    pub async fn erase_others(&self) -> Result<(), DeviceError> {
        self.opened.erase_others().await
    }

    /// Gives the volume, whose devices are copies, another id and name.
    ///
    /// # Errors
    /// If the kind does not support this, the volume must be attached before, or a device fails.
    pub async fn renew_identity(&self, new: NewIdentity) -> Result<(), VolumeError> {
        self.opened.renew_identity(new).await
    }

    /// Recovers the volume and attaches it.
    ///
    /// # Errors
    /// If the volume cannot be attached, or attaching could lose something that the administrator does not accept.
    pub async fn attach(self, context: AttachContext) -> Result<AttachedLayer, VolumeError> {
        self.opened.attach(context).await
    }

    /// Writes to the data device the data that was lost with an abandoned log, as far as the log can be read now.
    ///
    /// # Errors
    /// If the volume has no log, the log was not abandoned or belongs to another data device, or a device fails.
    pub async fn salvage(&self) -> Result<LayerSalvageReport, VolumeError> {
        self.opened.salvage().await
    }
}

/// The device that identifies a volume, for commands that need no other device of the volume.
#[derive(Clone)]
pub struct SuperblockDevice {
    kind: &'static KindSpec,
    part: OpenDevice,
}

impl SuperblockDevice {
    /// Opens the device. `kind` is the kind that the device is expected to hold.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(
        kind: &'static KindSpec,
        spec: &DeviceSpec,
        context: OpenContext<'_>,
    ) -> Result<SuperblockDevice, VolumeError> {
        let part = open_one(context, spec)?;
        Ok(SuperblockDevice { kind, part })
    }

    /// Returns the device as given.
    pub fn spec(&self) -> &DeviceSpec {
        &self.part.spec
    }

    /// Returns the kind of the volume: the expected kind, unless the device holds another kind that is identified by a
    /// device in the same role. For example, `--data` names a log-structured volume or a filesystem.
    async fn kind(&self) -> &'static dyn VolumeKind {
        let expected = kind_of(self.kind);
        let same = kinds().filter(|kind| kind.spec().own_role == self.kind.own_role);
        for kind in std::iter::once(expected).chain(same) {
            if kind.find(&self.part.device).await.is_some() {
                return kind;
            }
        }
        expected
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
        context: CheckContext<'_>,
        progress: ProgressSink<'_>,
    ) -> Result<LayerCheckReport, VolumeError> {
        self.kind().await.check(context, &self.part, progress).await
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
