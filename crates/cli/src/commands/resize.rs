//! `forebay resize`: adopts the present length of the devices, for an attached or a detached volume.

use std::rc::Rc;

use forebay_control::{ConnectError, ControlRequest, ResizeReply};
use forebay_linux::IoRing;
use forebay_rt::Rt;
use forebay_units::ByteLen;
use forebay_volume::{Layer, VolumeName};

use super::detached::on_volume;
use crate::args::ResizeArgs;
use crate::client::{self, DaemonClient};
use crate::dirs::ProgramDirs;
use crate::report::DaemonReply;
use crate::run::on_ring;
use crate::target::VolumeTarget;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

pub(crate) fn run(args: ResizeArgs) -> CommandResult {
    let dirs = ProgramDirs::new()?;
    if let Some(name) = &args.target.name {
        match client::try_connect(&dirs, name) {
            Ok(mut client) => return attached(&mut client, name, args.size),
            Err(ConnectError::Failed(failure)) => return Err(failure.into()),
            Err(ConnectError::NotAttached | ConnectError::Dead) => {}
        }
    }
    let (name, resized) = on_ring(|rt, ring| detached(args, dirs, rt, ring))?;
    print_result(&name, &resized);
    Ok(())
}

/// Sends the request to the daemon that serves the volume.
fn attached(client: &mut DaemonClient, name: &VolumeName, size: Option<ByteLen>) -> CommandResult {
    let size = size.map(|size| size.0);
    let resized = match client.ask(&ControlRequest::Resize { size }, |_| {})? {
        DaemonReply::Resized(resized) => resized,
        reply => return Err(client.unexpected(&reply).into()),
    };
    print_result(name, &resized);
    match resized.device_stays {
        None => Ok(()),
        Some(why) => Err(CommandFailure::io(format!(
            "{name} is resized, but its block device keeps its old length: {why}"
        ))),
    }
}

/// Resizes a volume that no daemon serves.
async fn detached(
    args: ResizeArgs,
    dirs: ProgramDirs,
    rt: Rt,
    ring: Rc<IoRing>,
) -> CommandResult<(VolumeName, ResizeReply)> {
    let target = VolumeTarget::find(&args.target, &dirs, &rt, &ring).await?;
    let name = target.name.clone();
    let resize = async |layer: &dyn Layer| {
        let resized = layer.resize(args.size).await;
        resized.map_err(|error| {
            CommandFailure::new(
                CommandFailure::code_of(error.cause),
                format!("cannot resize {name}: {error}"),
            )
        })
    };
    let worked = on_volume(target, &dirs, &rt, &ring, resize).await?;
    let mut notes = worked.notes;
    notes.extend(worked.result.notes);
    let resized = ResizeReply {
        before: worked.result.before,
        len: worked.result.len,
        notes,
        device_stays: None,
    };
    Ok((worked.name, resized))
}

fn print_result(name: &VolumeName, resized: &ResizeReply) {
    for note in &resized.notes {
        eprintln!("forebay: {note}");
    }
    let (before, len) = (ByteLen(resized.before), ByteLen(resized.len));
    if resized.len > resized.before {
        result_line!("{name} has {len} now, {before} before");
    } else {
        result_line!(
            "{name} has {len} as before: its devices have no space that it does not use yet"
        );
    }
}
