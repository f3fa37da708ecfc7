//! Messages for the user: names quoted according to the locale, errors, and the exit status.

use std::cell::Cell;

use rustix::io::Errno;

pub(super) use sleds_common::gnu::quoted_in_locale as quote;
use sleds_common::gnu::{note, reason};
use sleds_common::text;

/// Prefix of an error.
pub(super) const PROGRAM: &str = "sleds find: ";

thread_local! {
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

/// Writes a line to standard error, and ignores a failure.
pub(super) fn say(text: impl AsRef<[u8]>) {
    note("find", text);
}

/// Reports an error. The program continues, but its exit status will be a failure.
pub(super) fn error(text: impl AsRef<[u8]>) {
    FAILED.set(true);
    say(text);
}

/// Makes the exit status a failure.
pub(super) fn fail() {
    FAILED.set(true);
}

/// Returns true if any error occurred so far.
pub(super) fn failed() -> bool {
    FAILED.get()
}

/// Reports an error of a file.
pub(super) fn file_error(path: &[u8], errno: Errno) {
    error(about(path, errno));
}

/// Formats an error: `‘path’: text of the error`.
pub(super) fn about(path: &[u8], errno: Errno) -> Vec<u8> {
    text!(quote(path), ": ", error_text(errno))
}

/// Returns the library's text for an error.
pub(super) fn error_text(errno: Errno) -> String {
    reason(&errno.into())
}

/// Returns the error number of a standard library error.
pub(super) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
