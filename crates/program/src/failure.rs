//! The failures of the program: a line with the event, the path, the reason and a remedy; and an exit code.

use std::fmt;

pub use forebay_control::Code;
use forebay_control::Reply;
use forebay_stack::{Cause, DescriptionError, NameError, StackError};

/// The failure of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The kind of failure, which is also the exit code.
    pub code: Code,
    /// The event, the path, the reason and a remedy, in one line.
    pub text: String,
}

/// Result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Returns a failure of this kind.
    pub fn new(code: Code, text: impl fmt::Display) -> Failure {
        Failure {
            code,
            // A single line, even if the text contains line breaks.
            text: text.to_string().replace('\n', " "),
        }
    }

    /// Returns the kind of failure for a cause.
    pub fn code_of(cause: Cause) -> Code {
        match cause {
            Cause::General => Code::General,
            Cause::Usage => Code::Usage,
            Cause::NotFound => Code::NotFound,
            Cause::Refused | Cause::Loss => Code::Refused,
            Cause::Device => Code::Io,
        }
    }

    /// Returns a failure of no other kind.
    pub fn general(text: impl fmt::Display) -> Failure {
        Failure::new(Code::General, text)
    }

    /// The request is not possible or not valid.
    pub fn usage(text: impl fmt::Display) -> Failure {
        Failure::new(Code::Usage, text)
    }

    /// The volume or path does not exist.
    pub fn not_found(text: impl fmt::Display) -> Failure {
        Failure::new(Code::NotFound, text)
    }

    /// The volume or device is in use, or the command could lose or mix up data.
    pub fn refused(text: impl fmt::Display) -> Failure {
        Failure::new(Code::Refused, text)
    }

    /// A device or the system failed.
    pub fn io(text: impl fmt::Display) -> Failure {
        Failure::new(Code::Io, text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<S> From<Failure> for Reply<S> {
    fn from(failure: Failure) -> Reply<S> {
        Reply::Failed {
            code: failure.code,
            message: failure.text,
        }
    }
}

impl From<StackError> for Failure {
    fn from(error: StackError) -> Failure {
        match error.cause() {
            Cause::Loss => Failure::refused(format!(
                "{error}; see `forebay check`, or give up what is lost with --accept-loss"
            )),
            cause => Failure::new(Failure::code_of(cause), error),
        }
    }
}

impl From<forebay_os::CreateError> for Failure {
    fn from(error: forebay_os::CreateError) -> Failure {
        let code = match &error {
            forebay_os::CreateError::Exists { .. } => Code::Refused,
            _ => Code::Io,
        };
        Failure::new(code, error)
    }
}

impl From<DescriptionError> for Failure {
    fn from(error: DescriptionError) -> Failure {
        Failure::usage(error)
    }
}

impl From<NameError> for Failure {
    fn from(error: NameError) -> Failure {
        Failure::usage(error)
    }
}
