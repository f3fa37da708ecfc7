//! The placement of a volume, for both the daemon and the command.

use forebay_command_output::failure::CommandFailure;
use forebay_control::TuneReply;
use forebay_volume::{OperationError, TuneReport, VolumeName};

/// Converts the result of tuning to its form on the control socket.
pub(crate) fn to_reply(tuned: TuneReport) -> TuneReply {
    TuneReply {
        before: tuned.before.to_string(),
        placement: tuned.placement.to_string(),
        auto: tuned.auto,
        reason: tuned.reason,
        looks: tuned.looks,
        leaning: tuned.leaning.map(|kind| kind.to_string()),
    }
}

/// Returns the failure for a volume that keeps its placement.
pub(crate) fn not_tuned(name: &VolumeName, error: &OperationError) -> CommandFailure {
    let code = CommandFailure::code_of(error.cause);
    CommandFailure::new(code, format!("cannot tune {name}: {error}"))
}
