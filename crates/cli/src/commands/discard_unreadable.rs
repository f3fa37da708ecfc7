//! `forebay discard-unreadable`: declares data lost that can no longer be read from the log.

use forebay_control::ControlRequest;
use forebay_units::ByteLen;

use super::drain::drained;
use crate::args::DiscardUnreadableArgs;
use crate::client;
use crate::dirs::ProgramDirs;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

pub(crate) fn run(args: &DiscardUnreadableArgs) -> CommandResult {
    let name = &args.name;
    let mut client = client::connect(&ProgramDirs::new()?, name)?;
    let before = client.status()?;
    if !args.lose_unreadable {
        let what = before.status.summary().to_abandon.ok_or_else(|| {
            CommandFailure::refused(format!(
                "{name} has no data to discard: all data read so far from its log is readable"
            ))
        })?;
        return Err(CommandFailure::refused(format!(
            "{name}: {what}; reads are retried without a time limit, so discard the data only if the log device will \
             not come back: forebay discard-unreadable {name} --lose-unreadable"
        )));
    }
    drained(
        &mut client,
        &ControlRequest::DiscardUnreadable {},
        format!("discarding unreadable data of {name}"),
    )?;
    let lost = client.status()?.status.summary().lost_bytes;
    result_line!(
        "{name}: the unreadable data in the log is discarded; {} of the volume are lost, and return errors until they \
         are written again",
        ByteLen(lost)
    );
    Ok(())
}
