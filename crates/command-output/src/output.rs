//! Results, on standard output. A closed pipe (`forebay list | head`) is not a failure.

use std::fmt;
use std::io::{self, Write};

use crate::failure::{CommandFailure, CommandResult};

/// Prints a line of a result.
#[macro_export]
macro_rules! result_line {
    ($($text:tt)*) => {
        $crate::output::line(format_args!($($text)*))
    };
}
/// Prints a line of a result.
pub fn line(text: fmt::Arguments<'_>) {
    // A write error is ignored: only the exit code could report it, and the exit code is that of the command.
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// Prints all of `bytes`.
///
/// # Errors
/// If standard output cannot be written. A closed pipe is not an error.
pub fn all(bytes: &[u8]) -> CommandResult {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandFailure::io(format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}
