//! `forebay give-up`: declares data lost that can no longer be read from the log.

use forebay_control::ControlRequest;
use forebay_units::ByteLen;

use super::drain::drained;
use crate::args::DiscardUnreadableArgs;
use forebay_program::client::ControlClient;
use forebay_program::dirs::ProgramDirs;
use forebay_program::failure::{CommandFailure, CommandResult};
use forebay_program::result_line;

pub(crate) fn run(args: &DiscardUnreadableArgs) -> CommandResult {
    let name = &args.name;
    let mut client = ControlClient::connect(&ProgramDirs::new()?, name)?;
    let before = client.status()?;
    if !args.lose_unreadable {
        let what = before.status.to_give_up().ok_or_else(|| {
            CommandFailure::refused(format!(
                "{name} has nothing to give up: all that its log holds can be read, as far as that \
                 was tried"
            ))
        })?;
        return Err(CommandFailure::refused(format!(
            "{name}: {what}; it is tried again for as long as it takes, so give it up only if the log \
             device will not come back: forebay give-up {name} --lose-unreadable"
        )));
    }
    drained(
        &mut client,
        &ControlRequest::GiveUp {},
        format!("giving up {name}"),
    )?;
    let lost = client.status()?.status.lost_bytes();
    result_line!(
        "{name}: what could not be read from the log is given up; {} of the volume are lost, and give \
         errors until they are written again",
        ByteLen(lost)
    );
    Ok(())
}
