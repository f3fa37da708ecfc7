//! Replacing the log of a volume while it is served.

use std::path::PathBuf;
use std::time::Duration;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_control::{LogReplacedReply, NewLogRequest};
use forebay_units::ByteLen;
use forebay_volume::DeviceSpec;

use super::Daemon;
use crate::new_log::{self, LogOwner, LogRequest};
use crate::own_file::{OwnFileReply, OwnFileWork, apart};
use crate::target::VolumeTarget;

/// Time limit for finding out where a device is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Replaces the log of the volume.
pub(super) async fn replace_log(
    daemon: &Daemon,
    wanted: NewLogRequest,
) -> CommandResult<LogReplacedReply> {
    let wanted = LogRequest {
        log: absolute(&wanted.log)?,
        segment: wanted.segment.map(ByteLen),
        sparse: wanted.sparse,
        force: wanted.force,
    };
    let name = daemon.target.name.as_str();
    let _turn = daemon.changing.lock().await;
    daemon.freeze.check_thawed(name)?;
    if daemon.freeze.gate.is_preparing() {
        return Err(CommandFailure::refused(format!(
            "cannot replace the log of {name}: a freeze is being prepared; try again when the volume is thawed"
        )));
    }
    refuse_own(daemon, &wanted.log).await?;
    let target = VolumeTarget {
        tree: daemon.devices.now().tree.clone(),
        ..daemon.target.clone()
    };
    let owner = LogOwner {
        rt: &daemon.rt,
        ring: &daemon.ring,
        dirs: &daemon.dirs,
        target: &target,
    };
    let (reply, tree) = new_log::replace_log(owner, &*daemon.volume, wanted).await?;
    tracing::info!(
        former = reply.former,
        log = reply.log,
        "the log was replaced"
    );
    daemon.devices.replace(tree);
    Ok(reply)
}

/// Returns the device that a client names. The daemon has a working directory of its own.
fn absolute(path: &str) -> CommandResult<DeviceSpec> {
    let spec: DeviceSpec = path.parse().map_err(CommandFailure::usage)?;
    if spec.path().is_absolute() {
        Ok(spec)
    } else {
        Err(CommandFailure::usage(format!(
            "{spec} is not an absolute path; write it from the root"
        )))
    }
}

/// Refuses a device, or a file, that is on the served volume itself. A process of its own looks: the volume may
/// have to serve it.
async fn refuse_own(daemon: &Daemon, log: &DeviceSpec) -> CommandResult {
    let Some(device) = daemon.block_device.kernel_name() else {
        return Ok(());
    };
    let look = apart(OwnFileWork::CompareDisks {
        one: log.path().to_owned(),
        other: PathBuf::from(device),
    });
    let name = &daemon.target.name;
    match daemon.rt.timeout(PATIENCE, Box::pin(look)).await {
        Ok(Ok(OwnFileReply::Common(false))) => Ok(()),
        Ok(Ok(_)) => Err(CommandFailure::refused(format!(
            "{log} is on the volume {name} itself; give a device that is not on the volume"
        ))),
        Ok(Err(error)) => Err(CommandFailure::io(format!("cannot examine {log}: {error}"))),
        Err(_) => Err(CommandFailure::io(format!("{log} does not answer"))),
    }
}
