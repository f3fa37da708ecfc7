//! The failures of commands: a line with the event, the path, the reason and a remedy; and an exit code.

use std::fmt;

pub use forebay_control::FailureCode;
use forebay_control::{ControlError, ControlReply};
use forebay_volume::{ConfigFileError, ErrorCause, VolumeError, VolumeNameError};

/// The failure of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandFailure {
    /// The kind of failure, which is also the exit code.
    pub code: FailureCode,
    /// The event, the path, the reason and a remedy, in one line.
    pub text: String,
}

/// Result of a command.
pub type CommandResult<T = ()> = Result<T, CommandFailure>;

impl CommandFailure {
    /// Returns a failure of this kind.
    pub fn new(code: FailureCode, text: impl fmt::Display) -> CommandFailure {
        CommandFailure {
            code,
            // A single line, even if the text contains line breaks.
            text: text.to_string().replace('\n', " "),
        }
    }

    /// Returns the kind of failure for a cause.
    pub fn code_of(cause: ErrorCause) -> FailureCode {
        match cause {
            ErrorCause::General => FailureCode::General,
            ErrorCause::Usage => FailureCode::Usage,
            ErrorCause::NotFound => FailureCode::NotFound,
            ErrorCause::Refused | ErrorCause::Loss => FailureCode::Refused,
            ErrorCause::Device => FailureCode::Io,
        }
    }

    /// Returns a failure of no other kind.
    pub fn general(text: impl fmt::Display) -> CommandFailure {
        CommandFailure::new(FailureCode::General, text)
    }

    /// The request is not possible or not valid.
    pub fn usage(text: impl fmt::Display) -> CommandFailure {
        CommandFailure::new(FailureCode::Usage, text)
    }

    /// The volume or path does not exist.
    pub fn not_found(text: impl fmt::Display) -> CommandFailure {
        CommandFailure::new(FailureCode::NotFound, text)
    }

    /// The volume or device is in use, or the command could lose or mix up data.
    pub fn refused(text: impl fmt::Display) -> CommandFailure {
        CommandFailure::new(FailureCode::Refused, text)
    }

    /// A device or the system failed.
    pub fn io(text: impl fmt::Display) -> CommandFailure {
        CommandFailure::new(FailureCode::Io, text)
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<S> From<CommandFailure> for ControlReply<S> {
    fn from(failure: CommandFailure) -> ControlReply<S> {
        ControlReply::Failed {
            code: failure.code,
            message: failure.text,
        }
    }
}

impl From<ControlError> for CommandFailure {
    fn from(error: ControlError) -> CommandFailure {
        CommandFailure::new(error.code(), error)
    }
}

impl From<VolumeError> for CommandFailure {
    fn from(error: VolumeError) -> CommandFailure {
        match error.cause() {
            ErrorCause::Loss => CommandFailure::refused(format!(
                "{error}; see `forebay check`, or abandon the lost data with --accept-loss"
            )),
            cause => CommandFailure::new(CommandFailure::code_of(cause), error),
        }
    }
}

impl From<forebay_linux::FileCreateError> for CommandFailure {
    fn from(error: forebay_linux::FileCreateError) -> CommandFailure {
        let code = match &error {
            forebay_linux::FileCreateError::Exists { .. } => FailureCode::Refused,
            _ => FailureCode::Io,
        };
        CommandFailure::new(code, error)
    }
}

impl From<ConfigFileError> for CommandFailure {
    fn from(error: ConfigFileError) -> CommandFailure {
        CommandFailure::usage(error)
    }
}

impl From<VolumeNameError> for CommandFailure {
    fn from(error: VolumeNameError) -> CommandFailure {
        CommandFailure::usage(error)
    }
}
