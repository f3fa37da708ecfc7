//! `forebay detach`: drains a volume, then stops its daemon. With `--hand-over`, only stops the daemon and leaves the
//! block device to the next daemon.

use std::time::Duration;

use forebay_control::{ControlRequest, ProcessHandle};
use forebay_units::ByteLen;

use super::drain::drained;
use crate::args::DetachArgs;
use crate::client;
use crate::dirs::ProgramDirs;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

/// Time for a daemon to exit after it reported completion.
const END_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(args: &DetachArgs) -> CommandResult {
    let name = &args.name;
    let mut client = client::connect(&ProgramDirs::new()?, name)?;
    let pid = client.pid()?;
    let process = ProcessHandle::open(pid);
    let whole = client.status()?.status.when_drained();
    let request = if args.hand_over {
        ControlRequest::HandOver {}
    } else {
        ControlRequest::Detach {
            keep_dirty: args.keep_dirty,
        }
    };
    let done = drained(&mut client, &request, format!("draining {name}"))?;
    // The devices are free only after the process has exited.
    if process.is_some_and(|process| !process.wait(END_PATIENCE)) {
        return Err(CommandFailure::general(format!(
            "{name} is detached, but its daemon (process {pid}) does not end; the devices may \
             still be in use"
        )));
    }
    if let Some(why) = done.incomplete {
        return Err(CommandFailure::io(format!(
            "{name} is detached, but its data is not complete: {why}"
        )));
    }
    match done.left {
        _ if args.hand_over => result_line!(
            "{name} is left to the next daemon, and its clients wait for that daemon; attach it with: forebay attach \
             {name}"
        ),
        0 => result_line!("{name} is detached; {whole}"),
        left => result_line!(
            "{name} is detached with {} left in the log: do not use the data device alone; attach \
             it again with: forebay attach {name}",
            ByteLen(left)
        ),
    }
    Ok(())
}
