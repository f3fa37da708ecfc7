//! Growing a volume while it is served.

use forebay_control::ResizeReply;
use forebay_units::ByteLen;

use super::Daemon;
use forebay_command_output::failure::{CommandFailure, CommandResult};

/// Makes the volume adopt the length of its devices, and then the block device the length of the volume. NBD clients
/// see the new length at their next connection.
pub(super) async fn resize(daemon: &Daemon, size: Option<u64>) -> CommandResult<ResizeReply> {
    let name = &daemon.target.name;
    // One resize at a time: each tells the kernel the length that the volume has afterwards.
    let _turn = daemon.changing.lock().await;
    daemon.freeze.check_thawed(name.as_str())?;
    let resized = daemon.volume.resize(size.map(ByteLen)).await;
    let resized = resized.map_err(|error| {
        let code = CommandFailure::code_of(error.cause);
        CommandFailure::new(code, format!("cannot resize {name}: {error}"))
    })?;
    let (before, len) = (resized.before, resized.len);
    tracing::info!(before, len, "the volume adopted the length of its devices");
    daemon.devices.now().lengths.grown();
    // Also if the volume already has the length: the block device may have missed an earlier change.
    let follows = match (&*daemon.front.borrow(), daemon.volume.device()) {
        (Some(front), Some(device)) => front.resize(&daemon.volume.id(), &device.geometry()),
        _ => None,
    };
    let followed = match follows {
        Some(follows) => follows.await,
        None => Ok(()),
    };
    if let Err(failure) = &followed {
        tracing::warn!("the block device keeps its length: {failure}");
    }
    Ok(ResizeReply {
        before,
        len,
        notes: resized.notes,
        device_stays: followed.err().map(|failure| failure.text),
    })
}
