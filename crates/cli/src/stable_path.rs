//! Paths of devices for configuration files.

use std::path::Path;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_linux::DeviceKind;
use forebay_volume::DeviceSpec;

/// Returns the device with a path that stays valid after a reboot and from another directory.
pub(crate) fn stable(spec: &DeviceSpec) -> CommandResult<DeviceSpec> {
    let failed = |e: std::io::Error| CommandFailure::io(format!("cannot identify {spec}: {e}"));
    let identity = forebay_linux::identity(spec.path()).map_err(failed)?;
    let link = identity
        .names
        .iter()
        .map(|name| Path::new("/dev/disk").join(name))
        .find(|link| identity.kind == DeviceKind::Block && link.exists());
    if let Some(link) = link.filter(|_| !spec.path().starts_with("/dev/disk")) {
        return Ok(spec.at(link));
    }
    // Keep the path of the user if it is already under /dev; otherwise use the path with symbolic links resolved.
    if spec.path().starts_with("/dev/") {
        return Ok(spec.clone());
    }
    Ok(spec.at(identity.path))
}
