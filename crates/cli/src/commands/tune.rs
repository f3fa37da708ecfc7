//! `forebay tune`: shows or changes the placement of an attached or detached volume.

use std::rc::Rc;

use forebay_control::{ConnectError, ControlRequest, TuneReply};
use forebay_linux::IoRing;
use forebay_rt::Rt;
use forebay_volume::{Layer, VolumeName};

use super::detached::on_volume;
use crate::args::TuneArgs;
use crate::client::{self, DaemonClient};
use crate::dirs::ProgramDirs;
use crate::report::DaemonReply;
use crate::run::on_ring;
use crate::target::VolumeTarget;
use crate::tuned::{not_tuned, to_reply};
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

pub(crate) fn run(args: TuneArgs) -> CommandResult {
    let dirs = ProgramDirs::new()?;
    let json = args.json;
    if let Some(name) = &args.target.name {
        match client::try_connect(&dirs, name) {
            Ok(mut client) => {
                let tuned = attached(&mut client, &args)?;
                return print_placement(name, &tuned, json);
            }
            Err(ConnectError::Failed(failure)) => return Err(failure.into()),
            Err(ConnectError::NotAttached | ConnectError::Dead) => {}
        }
    }
    let (name, tuned) = on_ring(|rt, ring| detached(args, dirs, rt, ring))?;
    print_placement(&name, &tuned, json)
}

/// Sends the request to the daemon that serves the volume.
fn attached(client: &mut DaemonClient, args: &TuneArgs) -> CommandResult<TuneReply> {
    let placement = args.placement.map(|placement| placement.to_string());
    match client.ask(&ControlRequest::Tune { placement }, |_| {})? {
        DaemonReply::Tuned(tuned) => Ok(tuned),
        reply => Err(client.unexpected(&reply).into()),
    }
}

/// Tunes a volume that no daemon serves.
async fn detached(
    args: TuneArgs,
    dirs: ProgramDirs,
    rt: Rt,
    ring: Rc<IoRing>,
) -> CommandResult<(VolumeName, TuneReply)> {
    let target = VolumeTarget::find(&args.target, &dirs, &rt, &ring).await?;
    let name = target.name.clone();
    let possible = target.tree.can_be_tuned(args.placement);
    possible.map_err(|error| not_tuned(&name, &error))?;
    let tune = async |layer: &dyn Layer| {
        let tuned = layer.tune(args.placement).await;
        tuned.map_err(|error| not_tuned(&name, &error))
    };
    let worked = on_volume(target, &dirs, &rt, &ring, tune).await?;
    for note in &worked.notes {
        eprintln!("forebay: {note}");
    }
    Ok((worked.name, to_reply(worked.result)))
}

fn print_placement(name: &VolumeName, tuned: &TuneReply, json: bool) -> CommandResult {
    if json {
        let text = serde_json::to_string_pretty(tuned)
            .map_err(|error| CommandFailure::general(error.to_string()))?;
        result_line!("{text}");
        return Ok(());
    }
    let by = if tuned.auto {
        ", and changes its placement if another is expected to cost less"
    } else {
        ""
    };
    if tuned.before == tuned.placement {
        result_line!("{name} places data by {}{by}", tuned.placement);
    } else {
        result_line!(
            "{name} places data by {} now, by {} before{by}",
            tuned.placement,
            tuned.before
        );
    }
    match &tuned.reason {
        Some(reason) => result_line!("after {} samples of the writes: {reason}", tuned.looks),
        None => result_line!(
            "too few overwrites since the volume was attached to estimate the cost of other placements"
        ),
    }
    if let Some(better) = &tuned.leaning
        && !tuned.auto
    {
        result_line!("it would cost less with --placement {better}");
    }
    Ok(())
}
