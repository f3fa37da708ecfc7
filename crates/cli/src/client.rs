//! Connections to the daemons of volumes, by the names of the volumes.

use std::time::{Duration, Instant};

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_control::{ANSWER_PATIENCE, ConnectError, ControlError};
use forebay_volume::{LayerStatus, ServedAs, VolumeName};

use crate::dirs::ProgramDirs;
use crate::report::StatusReport;

/// A connection to the daemon of a volume with the layers of this workspace.
pub(crate) type DaemonClient = forebay_control::ControlClient<LayerStatus>;

/// Connects to the daemon of `name`.
pub(crate) fn try_connect(
    dirs: &ProgramDirs,
    name: &VolumeName,
) -> Result<DaemonClient, ConnectError> {
    try_within(dirs, name, ANSWER_PATIENCE)
}

/// Connects to the daemon of `name`, with `patience` as the timeout for each of its answers.
pub(crate) fn try_within(
    dirs: &ProgramDirs,
    name: &VolumeName,
    patience: Duration,
) -> Result<DaemonClient, ConnectError> {
    match DaemonClient::connect(&dirs.control_socket(name), name.as_str(), patience) {
        // A refused attach may since have removed the socket of the previous daemon.
        Err(ConnectError::NotAttached) if dirs.ended_abruptly(name) => Err(ConnectError::Dead),
        connected => connected,
    }
}

/// Time for the kernel to close the socket of a daemon that is being killed.
const ENDING: Duration = Duration::from_secs(1);
/// Interval between two attempts to reach a daemon that may be ending.
const TRY_EVERY: Duration = Duration::from_millis(20);

/// Requests a report from the daemon of `name`, with `patience` as the timeout for its answer. A daemon that is being
/// killed still has its socket for a moment, and resets connections: it counts as killed.
pub(crate) fn report_within(
    dirs: &ProgramDirs,
    name: &VolumeName,
    patience: Duration,
) -> Result<StatusReport, ConnectError> {
    let begun = Instant::now();
    loop {
        let asked = try_within(dirs, name, patience)
            .and_then(|mut client| client.status().map_err(ConnectError::Failed));
        let is_silent = matches!(
            asked,
            Err(ConnectError::Failed(ControlError::Silent { .. }))
        );
        if !is_silent || begun.elapsed() >= ENDING {
            return asked;
        }
        std::thread::sleep(TRY_EVERY);
    }
}

/// Connects to the daemon of `name`, with the failure as text.
pub(crate) fn connect(dirs: &ProgramDirs, name: &VolumeName) -> CommandResult<DaemonClient> {
    within(dirs, name, ANSWER_PATIENCE)
}

/// Connects to the daemon of `name`, with `patience` as its timeout, and the failure as text.
pub(crate) fn within(
    dirs: &ProgramDirs,
    name: &VolumeName,
    patience: Duration,
) -> CommandResult<DaemonClient> {
    try_within(dirs, name, patience).map_err(|absent| in_words(absent, dirs, name))
}

/// Returns the reason for the missing connection and a remedy, as a failure.
fn in_words(absent: ConnectError, dirs: &ProgramDirs, name: &VolumeName) -> CommandFailure {
    let (is_files, is_known) = match dirs.description(name) {
        Ok(description) => (description.tree.kind().served_as == ServedAs::Files, true),
        Err(_) => (false, dirs.description_file(name).exists()),
    };
    let (is_there, start) = if is_files {
        (format!("the filesystem {name} is not mounted"), "mount")
    } else {
        (format!("the volume {name} is not attached"), "attach")
    };
    match absent {
        ConnectError::NotAttached if !is_known => CommandFailure::not_found(format!(
            "no volume {name}: no attached volume and no configuration file has that name; see `forebay list`"
        )),
        ConnectError::NotAttached => CommandFailure::not_found(format!(
            "{is_there}; {start} it with: forebay {start} {name}"
        )),
        ConnectError::Dead if !is_known => CommandFailure::not_found(format!(
            "{is_there}: its daemon ended abruptly; it has no configuration file: attach it again by its devices \
             (--log PATH, --data PATH)"
        )),
        ConnectError::Dead => CommandFailure::not_found(format!(
            "{is_there}: its daemon ended abruptly; recover it with: forebay {start} {name}"
        )),
        ConnectError::Failed(error) => error.into(),
    }
}
