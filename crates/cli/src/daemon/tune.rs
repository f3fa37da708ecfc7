//! Changing the placement of a volume while it is served.

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_control::TuneReply;

use super::Daemon;
use crate::tuned::{not_tuned, to_reply};

/// Changes the placement of the volume, if one is given. Returns the placement and its reason.
pub(super) async fn tune(daemon: &Daemon, placement: Option<String>) -> CommandResult<TuneReply> {
    let placement = match placement.map(|text| text.parse()).transpose() {
        Ok(placement) => placement,
        Err(error) => return Err(CommandFailure::usage(format!("{error}"))),
    };
    if placement.is_some() {
        daemon.freeze.check_thawed(daemon.target.name.as_str())?;
    }
    let tuned = daemon.volume.tune(placement).await;
    tuned
        .map(to_reply)
        .map_err(|error| not_tuned(&daemon.target.name, &error))
}
