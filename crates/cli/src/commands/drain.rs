//! `forebay drain`: moves all data to the data device.

use std::time::Duration;

use forebay_control::{ANSWER_PATIENCE, ControlRequest};

use crate::args::DrainArgs;
use crate::client::{self, DaemonClient};
use crate::dirs::ProgramDirs;
use crate::report::DaemonReply;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::progress::DrainProgress;
use forebay_command_output::result_line;

/// Additional time to wait for the answer after the time limit of the drain: the daemon itself ends the drain and
/// reports the result.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &DrainArgs) -> CommandResult {
    let dirs = ProgramDirs::new()?;
    let mut client = match args.timeout {
        Some(span) => client::within(&dirs, &args.name, ANSWER_PATIENCE.min(span.0 + GRACE))?,
        None => client::connect(&dirs, &args.name)?,
    };
    let timeout_ms = args
        .timeout
        .map(|span| u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX));
    let request = ControlRequest::Drain { timeout_ms };
    let done = drained(&mut client, &request, format!("draining {}", args.name))?;
    if let Some(why) = done.incomplete {
        return Err(CommandFailure::io(format!(
            "{} is drained, but its data is not complete: {why}",
            args.name
        )));
    }
    result_line!("{} is drained", args.name);
    Ok(())
}

/// Result of a drain.
#[derive(Default)]
pub(crate) struct DrainOutcome {
    /// Bytes left in the log.
    pub(crate) left: u64,
    /// Reason why the data is not complete in spite of the drain, as text.
    pub(crate) incomplete: Option<String>,
}

/// Sends a request that drains, and shows its progress.
pub(crate) fn drained(
    client: &mut DaemonClient,
    request: &ControlRequest,
    what: String,
) -> CommandResult<DrainOutcome> {
    let mut progress = DrainProgress::new(what);
    let reply = client.ask(request, |left| progress.set(left));
    progress.finish();
    Ok(match reply? {
        DaemonReply::Done {
            dirty_bytes,
            warning,
            incomplete,
        } => {
            if let Some(warning) = warning {
                eprintln!("forebay: WARNING: {warning}");
            }
            DrainOutcome {
                left: dirty_bytes,
                incomplete: (!incomplete.is_empty()).then(|| incomplete.join("; ")),
            }
        }
        _ => DrainOutcome::default(),
    })
}
