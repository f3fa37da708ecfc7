//! `forebay freeze` and `forebay thaw`: hold back writes, so that the devices can be copied.

use forebay_command_output::failure::CommandResult;
use forebay_command_output::result_line;
use forebay_control::{ControlRequest, FREEZE_LIMIT};
use forebay_units::TimeSpan;

use super::drain::drained;
use crate::args::{FreezeArgs, ThawArgs};
use crate::client;
use crate::dirs::ProgramDirs;

pub(crate) fn freeze(args: &FreezeArgs) -> CommandResult {
    let name = &args.name;
    let limit = args.timeout.unwrap_or(TimeSpan(FREEZE_LIMIT));
    let mut client = client::connect(&ProgramDirs::new()?, name)?;
    let timeout_ms = u64::try_from(limit.0.as_millis()).unwrap_or(u64::MAX);
    let request = ControlRequest::Freeze { timeout_ms };
    drained(&mut client, &request, format!("freezing {name}"))?;
    result_line!("{name} is frozen: writes wait for `forebay thaw {name}`, or {limit} at most");
    Ok(())
}

pub(crate) fn thaw(args: &ThawArgs) -> CommandResult {
    let name = &args.name;
    let mut client = client::connect(&ProgramDirs::new()?, name)?;
    drained(
        &mut client,
        &ControlRequest::Thaw {},
        format!("thawing {name}"),
    )?;
    result_line!("{name} is thawed");
    Ok(())
}
