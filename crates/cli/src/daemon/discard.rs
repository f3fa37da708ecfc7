//! `forebay discard-unreadable`: unreadable data of a log is declared lost.

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_control::RemainingWork;

use super::{Daemon, PROGRESS_EVERY, STUCK_PATIENCE};
use crate::report::left;

/// Makes the volume declare the unreadable data in its log lost. Waits until that is done, at most [`STUCK_PATIENCE`].
/// Reports progress meanwhile. Returns the bytes that are left in the log, or the error of `progress`.
pub(super) async fn discard_unreadable<E>(
    daemon: &Daemon,
    progress: impl AsyncFn(RemainingWork) -> Result<(), E>,
) -> Result<CommandResult<u64>, E> {
    let (volume, rt) = (&daemon.volume, &daemon.rt);
    let name = &daemon.target.name;
    if let Err(frozen) = daemon.freeze.check_thawed(name.as_str()) {
        return Ok(Err(frozen));
    }
    if !volume.can_abandon() {
        return Ok(Err(CommandFailure::refused(format!(
            "{name} has no data to discard: all data read so far from its log is readable; see `forebay status {name}`"
        ))));
    }
    let status = volume.status();
    tracing::warn!(
        bytes = status.summary().unreadable_bytes,
        "abandoning the unreadable data of the log, as commanded"
    );
    volume.abandon_unreadable();
    let deadline = rt.now().plus(STUCK_PATIENCE);
    while volume.is_abandoning() {
        if rt.now() >= deadline {
            let why = volume.status().summary().mode_detail;
            let why = why.unwrap_or_else(|| "the volume is still working on it".into());
            return Ok(Err(CommandFailure::io(format!(
                "{name} has accepted the command to discard unreadable data, but has not finished it: {why}"
            ))));
        }
        progress(left(&volume.status())).await?;
        rt.sleep(PROGRESS_EVERY).await;
    }
    Ok(Ok(volume.status().summary().dirty_bytes))
}
