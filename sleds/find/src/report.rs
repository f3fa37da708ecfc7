//! Words for the user: names quoted as the locale has it, errors, and the status to exit with.

use std::cell::Cell;
use std::io::Write as _;

use rustix::io::Errno;

use sleds_common::gnu::reason;
use sleds_common::locale::{Charset, Locale};

/// What an error begins with.
pub(super) const PROGRAM: &str = "sleds find";

thread_local! {
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

/// Writes a line to standard error. Nothing can be said if that fails.
pub(super) fn say(text: &[u8]) {
    let mut line = Vec::with_capacity(text.len() + 16);
    line.extend_from_slice(PROGRAM.as_bytes());
    line.extend_from_slice(b": ");
    line.extend_from_slice(text);
    line.push(b'\n');
    let _ = std::io::stderr().write_all(&line);
}

/// Says that something went wrong; the program will fail, but goes on.
pub(super) fn error(text: &[u8]) {
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
    error(&about(path, errno));
}

/// `‘path’: text of the error`.
pub(super) fn about(path: &[u8], errno: Errno) -> Vec<u8> {
    let mut text = quote(path);
    text.extend_from_slice(b": ");
    text.extend_from_slice(error_text(errno).as_bytes());
    text
}

/// What the library calls an error.
pub(super) fn error_text(errno: Errno) -> String {
    reason(&errno.into())
}

/// The error number of a failure of the standard library's.
pub(super) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// `text` in the locale's quotation marks, with what does not print written as C does.
pub(super) fn quote(text: &[u8]) -> Vec<u8> {
    let utf8 = Locale::of_environment().charset() == Charset::Utf8;
    let (open, close) = if utf8 { ("‘", "’") } else { ("'", "'") };
    let mut quoted = Vec::with_capacity(text.len() + 6);
    quoted.extend_from_slice(open.as_bytes());
    if utf8 {
        for part in text.utf8_chunks() {
            for c in part.valid().chars() {
                quote_char(&mut quoted, c);
            }
            for byte in part.invalid() {
                let _ = write!(quoted, "\\{byte:03o}");
            }
        }
    } else {
        for byte in text {
            match byte {
                b'\'' => quoted.extend_from_slice(b"\\'"),
                byte if byte.is_ascii() => quote_char(&mut quoted, char::from(*byte)),
                byte => {
                    let _ = write!(quoted, "\\{byte:03o}");
                }
            }
        }
    }
    quoted.extend_from_slice(close.as_bytes());
    quoted
}

fn quote_char(quoted: &mut Vec<u8>, c: char) {
    if let Some(letter) = escape_letter(c) {
        quoted.extend_from_slice(&[b'\\', letter]);
        return;
    }
    let mut bytes = [0; 4];
    let bytes = c.encode_utf8(&mut bytes).as_bytes();
    if c == '’' {
        quoted.push(b'\\');
    }
    if Locale::of_environment().is_print(c.into()) {
        quoted.extend_from_slice(bytes);
    } else {
        for byte in bytes {
            let _ = write!(quoted, "\\{byte:03o}");
        }
    }
}

/// The letter after the backslash by which C writes a character.
pub(super) fn escape_letter(c: char) -> Option<u8> {
    Some(match c {
        '\x07' => b'a',
        '\x08' => b'b',
        '\x0c' => b'f',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\x0b' => b'v',
        '\\' => b'\\',
        _ => return None,
    })
}
