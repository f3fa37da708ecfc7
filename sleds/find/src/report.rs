//! Words for the user: names quoted as the locale has it, errors, and the status to exit with.

use std::cell::Cell;

use rustix::io::Errno;

pub(super) use sleds_common::gnu::quoted_in_locale as quote;
use sleds_common::gnu::{note, reason};
use sleds_common::text;

/// What an error begins with.
pub(super) const PROGRAM: &str = "sleds find: ";

thread_local! {
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

/// Writes a line to standard error. Nothing can be said if that fails.
pub(super) fn say(text: impl AsRef<[u8]>) {
    note("find", text);
}

/// Says that something went wrong; the program will fail, but goes on.
pub(super) fn error(text: impl AsRef<[u8]>) {
    FAILED.set(true);
    say(text);
}

/// The program will fail.
pub(super) fn fail() {
    FAILED.set(true);
}

/// Whether anything went wrong so far.
pub(super) fn failed() -> bool {
    FAILED.get()
}

/// Says what went wrong with a file.
pub(super) fn file_error(path: &[u8], errno: Errno) {
    error(about(path, errno));
}

/// `‘path’: text of the error`.
pub(super) fn about(path: &[u8], errno: Errno) -> Vec<u8> {
    text!(quote(path), ": ", error_text(errno))
}

/// What the library calls an error.
pub(super) fn error_text(errno: Errno) -> String {
    reason(&errno.into())
}

/// The error number of a failure of the standard library's.
pub(super) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
