//! How the program fails: one line that says what, which path, why and what to do, and an exit code.

use std::fmt;

pub(crate) use forebay_control::Code;
use forebay_control::Reply;
use forebay_stack::{Cause, DescriptionError, NameError, StackError};

/// Why a command did not do what it was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

/// What a command comes to.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, text: impl fmt::Display) -> Failure {
        Failure {
            code,
            // One line, whatever was put into it.
            text: text.to_string().replace('\n', " "),
        }
    }

    pub(crate) fn general(text: impl fmt::Display) -> Failure {
        Failure::new(Code::General, text)
    }

    pub(crate) fn usage(text: impl fmt::Display) -> Failure {
        Failure::new(Code::Usage, text)
    }

    pub(crate) fn not_found(text: impl fmt::Display) -> Failure {
        Failure::new(Code::NotFound, text)
    }

    pub(crate) fn refused(text: impl fmt::Display) -> Failure {
        Failure::new(Code::Refused, text)
    }

    pub(crate) fn io(text: impl fmt::Display) -> Failure {
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
        let code = match error.cause() {
            Cause::Loss => {
                return Failure::refused(format!(
                    "{error}; see `forebay check`, or give up what is lost with --accept-loss"
                ));
            }
            Cause::General => Code::General,
            Cause::Usage => Code::Usage,
            Cause::NotFound => Code::NotFound,
            Cause::Refused => Code::Refused,
            Cause::Device => Code::Io,
        };
        Failure::new(code, error)
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
