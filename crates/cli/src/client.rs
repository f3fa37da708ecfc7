//! Connections to the daemons of volumes, by the names of the volumes.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use forebay_command_output::failure::{CommandFailure, CommandResult, FailureCode};
use forebay_control::{ANSWER_PATIENCE, ConnectError, ControlError};
use forebay_volume::{LayerStatus, ServedAs, VolumeHealth, VolumeName};

use crate::dirs::ProgramDirs;
use crate::health;
use crate::report::StatusReport;
use crate::witness;

/// A connection to the daemon of a volume with the layers of this workspace.
pub(crate) type DaemonClient = forebay_control::ControlClient<LayerStatus>;

/// Connects to the daemon of `name`.
pub(crate) fn try_connect(
    dirs: &ProgramDirs,
    name: &VolumeName,
) -> Result<DaemonClient, ConnectError> {
    try_within(dirs, name, ANSWER_PATIENCE)
}

/// Connects to the daemon of `name`, with `patience` as the timeout for each of its answers. Refuses users that have
/// access to the status of the volume alone.
pub(crate) fn try_within(
    dirs: &ProgramDirs,
    name: &VolumeName,
    patience: Duration,
) -> Result<DaemonClient, ConnectError> {
    let connected = to_control(dirs, name, patience);
    let is_foreign = match &connected {
        // A volume of this user may have the same name.
        Err(ConnectError::NotAttached) => !dirs.description_file(name).exists(),
        Err(absent) => is_out_of_reach(absent),
        Ok(_) => false,
    };
    if is_foreign && to_status(dirs, name, patience).is_ok() {
        return Err(ConnectError::Failed(ControlError::Refused {
            code: FailureCode::Refused,
            message: format!(
                "the volume {name} belongs to another user: you may only see its status; run this command as that \
                 user, usually root"
            ),
        }));
    }
    connected
}

/// Connects to the control socket.
fn to_control(
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

/// Connects to the socket that answers only requests for the status.
fn to_status(
    dirs: &ProgramDirs,
    name: &VolumeName,
    patience: Duration,
) -> Result<DaemonClient, ConnectError> {
    DaemonClient::connect(&dirs.status_socket(name), name.as_str(), patience)
}

/// Connects to the daemon of `name` for its status, with `patience` as the timeout for each answer. Members of the status
/// group reach the daemon by its status socket.
fn try_for_status(
    dirs: &ProgramDirs,
    name: &VolumeName,
    patience: Duration,
) -> Result<DaemonClient, ConnectError> {
    match to_control(dirs, name, patience) {
        Err(absent) if is_out_of_reach(&absent) => match to_status(dirs, name, patience) {
            // The daemon of another user was killed.
            Err(ConnectError::Dead) => Err(ConnectError::Dead),
            Err(_) => Err(absent),
            connected => connected,
        },
        connected => connected,
    }
}

/// Returns true if this user's control socket is missing, or belongs to another user.
fn is_out_of_reach(absent: &ConnectError) -> bool {
    match absent {
        ConnectError::NotAttached => true,
        ConnectError::Failed(ControlError::Unreachable { source, .. }) => {
            source.kind() == ErrorKind::PermissionDenied
        }
        _ => false,
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
        let asked = try_for_status(dirs, name, patience)
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

/// Requests a report from the daemon of `name`, with the failure as text.
pub(crate) fn report(dirs: &ProgramDirs, name: &VolumeName) -> CommandResult<StatusReport> {
    let asked = report_within(dirs, name, ANSWER_PATIENCE);
    asked.map_err(|absent| in_words(absent, dirs, name))
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
    let description = dirs.description(name);
    let (is_files, is_known) = match &description {
        Ok(description) => (description.tree.kind().served_as == ServedAs::Files, true),
        Err(_) => (false, dirs.description_file(name).exists()),
    };
    let (is_there, start) = if is_files {
        (format!("the filesystem {name} is not mounted"), "mount")
    } else {
        (format!("the volume {name} is not attached"), "attach")
    };
    let is_failed = matches!(absent, ConnectError::NotAttached | ConnectError::Dead)
        && description.is_ok_and(|known| witness::has_record(dirs, &known));
    if is_failed {
        let found = health::of_absence(dirs, name, &absent);
        if let (VolumeHealth::Degraded, Some(why)) = (found.health, found.detail) {
            return CommandFailure::not_found(format!("{is_there}: {why}"));
        }
    }
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
