//! `forebay own-file`: works on files for a daemon, which may serve the volume that they are on. Not for users.

use std::io;

use forebay_linux::UnderlyingDisks;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::own_file::{LogName, OwnFileReply, OwnFileRequest, OwnFileWork};
use crate::{dirs, scrub_record, witness};
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

/// Prints an [`OwnFileReply`], unless the daemon has ended.
pub(crate) fn run(request: &str) -> CommandResult {
    let request: OwnFileRequest =
        serde_json::from_str(request).map_err(|error| CommandFailure::usage(error.to_string()))?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| CommandFailure::io(io::Error::from(error)))?;
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if parent != Some(request.parent) {
        return Err(CommandFailure::general("the daemon has ended"));
    }
    let reply = perform(request.work).unwrap_or_else(|failure| OwnFileReply::Failed {
        code: failure.code,
        message: failure.text,
    });
    let reply = serde_json::to_string(&reply);
    result_line!(
        "{}",
        reply.map_err(|error| CommandFailure::io(io::Error::from(error)))?
    );
    Ok(())
}

fn perform(work: OwnFileWork) -> CommandResult<OwnFileReply> {
    let reply = match work {
        OwnFileWork::Settle { file } => dirs::settle(&file).map(|()| OwnFileReply::Done),
        OwnFileWork::NameLog(LogName { file, volume, log }) => {
            dirs::name_log(&file, &parsed(&volume)?, &parsed(&log)?)?;
            Ok(OwnFileReply::Done)
        }
        OwnFileWork::CheckLog(LogName { file, volume, log }) => {
            dirs::check_log(&file, &parsed(&volume)?, &parsed(&log)?)?;
            Ok(OwnFileReply::Done)
        }
        OwnFileWork::CompareDisks { one, other } => {
            let (one, other) = (UnderlyingDisks::below(one), UnderlyingDisks::below(other));
            Ok(OwnFileReply::Common(one.common(&other).is_some()))
        }
        OwnFileWork::ReadFailedLog { dir, volume } => {
            witness::look(&dir, &volume).map(OwnFileReply::Epoch)
        }
        OwnFileWork::RecordFailedLog { dir, volume, epoch } => {
            witness::keep(&dir, &volume, epoch).map(|()| OwnFileReply::Done)
        }
        OwnFileWork::ReadScrub { file } => std::fs::read_to_string(file).map(OwnFileReply::Text),
        OwnFileWork::RecordScrub { file, text } => {
            scrub_record::keep(&file, text.as_bytes()).map(|()| OwnFileReply::Done)
        }
    };
    reply.map_err(CommandFailure::io)
}

fn parsed<T: std::str::FromStr>(text: &str) -> CommandResult<T>
where
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|error: T::Err| CommandFailure::usage(error.to_string()))
}
