//! `forebay detach`: drains a volume, then stops its daemon. With `--hand-over`, only stops the daemon and leaves the
//! block device to the next daemon.

use std::time::Duration;

use forebay_control::Request;
use forebay_units::ByteLen;

use super::drain::drained;
use crate::args::DetachArgs;
use forebay_program::client::{Client, Process};
use forebay_program::dirs::Dirs;
use forebay_program::failure::{Failure, Outcome};
use forebay_program::result_line;

/// Time for a daemon to exit after it reported completion.
const END_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(args: &DetachArgs) -> Outcome {
    let name = &args.name;
    let mut client = Client::connect(&Dirs::new()?, name)?;
    let pid = client.pid()?;
    let process = Process::open(pid);
    let whole = client.status()?.status.when_drained();
    let request = if args.hand_over {
        Request::HandOver {}
    } else {
        Request::Detach {
            keep_dirty: args.keep_dirty,
        }
    };
    let done = drained(&mut client, &request, format!("draining {name}"))?;
    // The devices are free only after the process has exited.
    if process.is_some_and(|process| !process.wait(END_PATIENCE)) {
        return Err(Failure::general(format!(
            "{name} is detached, but its daemon (process {pid}) does not end; the devices may \
             still be in use"
        )));
    }
    if let Some(why) = done.incomplete {
        return Err(Failure::io(format!(
            "{name} is detached, and its data is not complete: {why}"
        )));
    }
    match done.left {
        _ if args.hand_over => result_line!(
            "{name} is left to the next daemon, and whoever uses it waits for that; attach it with: \
             forebay attach {name}"
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
