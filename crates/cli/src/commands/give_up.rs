//! `forebay give-up`: declares data lost that can no longer be read from the log.

use forebay_control::Request;
use forebay_units::ByteLen;

use super::drain::drained;
use crate::args::GiveUpArgs;
use forebay_program::client::Client;
use forebay_program::dirs::Dirs;
use forebay_program::failure::{Failure, Outcome};
use forebay_program::result_line;

pub(crate) fn run(args: &GiveUpArgs) -> Outcome {
    let name = &args.name;
    let mut client = Client::connect(&Dirs::new()?, name)?;
    let before = client.status()?;
    if !args.lose_unreadable {
        let what = before.status.to_give_up().ok_or_else(|| {
            Failure::refused(format!(
                "{name} has nothing to give up: all that its log holds can be read, as far as that \
                 was tried"
            ))
        })?;
        return Err(Failure::refused(format!(
            "{name}: {what}; it is tried again for as long as it takes, so give it up only if the log \
             device will not come back: forebay give-up {name} --lose-unreadable"
        )));
    }
    drained(
        &mut client,
        &Request::GiveUp {},
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
