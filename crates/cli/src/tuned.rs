//! The placement of a volume, for both the daemon and the command.

use forebay_control::TunedTo;
use forebay_program::failure::Failure;
use forebay_stack::{Name, NotDone, Tuned};

/// Converts the result of tuning to its form on the control socket.
pub(crate) fn told(tuned: Tuned) -> TunedTo {
    TunedTo {
        before: tuned.before.to_string(),
        placement: tuned.placement.to_string(),
        auto: tuned.auto,
        reason: tuned.reason,
        looks: tuned.looks,
        leaning: tuned.leaning.map(|kind| kind.to_string()),
    }
}

/// Returns the failure for a volume that keeps its placement.
pub(crate) fn not_tuned(name: &Name, error: &NotDone) -> Failure {
    let code = Failure::code_of(error.cause);
    Failure::new(code, format!("cannot tune {name}: {error}"))
}
