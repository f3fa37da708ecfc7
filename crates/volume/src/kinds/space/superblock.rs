//! The identity and the structures of a space, for the kinds that have one.

use forebay_vsl::VolumeId;

use crate::error::VolumeError;
use crate::kind::VolumeIdentity;
use crate::kind_spec::KindSpec;
use crate::name::VolumeName;
use crate::open::OpenDevice;
use crate::report::LayerDumpItem;
use crate::tree::{DeviceOrLayer, LayerTree};

use super::error::SpaceVolumeError;
use super::offline::inspect;

/// Returns the structure of a volume of this kind on a device, with default options.
pub(crate) fn space_tree(kind: &'static KindSpec, on: &OpenDevice) -> LayerTree {
    LayerTree::new(kind, [("data", DeviceOrLayer::Device(on.spec.clone()))])
}

/// Returns the identity of the space on a device.
///
/// # Errors
/// If the device holds no space, or cannot be read.
pub(crate) async fn identify(own: &OpenDevice) -> Result<VolumeIdentity, VolumeError> {
    let inspected = inspect(&*own.device).await;
    let superblock = inspected.map_err(|error| SpaceVolumeError::not_a_space(&own.spec, error))?;
    let volume = superblock.id().to_string();
    let name = VolumeName::from_path(own.spec.path());
    Ok(VolumeIdentity {
        name: name.map_or_else(|| volume.clone(), |name| name.to_string()),
        volume,
        clean: false,
        abandoned: false,
        epoch: 0,
    })
}

/// Gives a copy of a space an id of its own.
///
/// # Errors
/// If the device holds no space, or fails.
pub(crate) async fn renew_identity(own: &OpenDevice, id: [u8; 16]) -> Result<(), VolumeError> {
    let renewed = forebay_vsl::set_alias(&*own.device, VolumeId(id)).await;
    renewed.map_err(|error| SpaceVolumeError::not_a_space(&own.spec, error))
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
    let dumped = forebay_vsl::dump(&own.device, &mut each).await;
    dumped.map_err(|error| SpaceVolumeError::not_a_space(&own.spec, error))
}
