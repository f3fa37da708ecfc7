//! How the program fails: one line that says what, which path, why and what to do, and an exit code.

use std::fmt;

pub use forebay_control::Code;
use forebay_control::Reply;
use forebay_stack::{Cause, DescriptionError, NameError, StackError};

/// Why a command did not do what it was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The kind of failure: also the exit code.
    pub code: Code,
    /// What, which path, why and what to do, in one line.
    pub text: String,
}

/// What a command comes to.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure of a kind.
    pub fn new(code: Code, text: impl fmt::Display) -> Failure {
        Failure {
            code,
            // One line, whatever was put into it.
            text: text.to_string().replace('\n', " "),
        }
    }

    /// The kind of failure that this is the cause of.
    pub fn code_of(cause: Cause) -> Code {
        match cause {
            Cause::General => Code::General,
            Cause::Usage => Code::Usage,
            Cause::NotFound => Code::NotFound,
            Cause::Refused | Cause::Loss => Code::Refused,
            Cause::Device => Code::Io,
        }
    }

    /// A failure that is none of the others.
    pub fn general(text: impl fmt::Display) -> Failure {
        Failure::new(Code::General, text)
    }

    /// What was asked for cannot be.
    pub fn usage(text: impl fmt::Display) -> Failure {
        Failure::new(Code::Usage, text)
    }

    /// There is no such volume or path.
    pub fn not_found(text: impl fmt::Display) -> Failure {
        Failure::new(Code::NotFound, text)
    }

    /// Going on could lose or mix up data, or it is in use.
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
