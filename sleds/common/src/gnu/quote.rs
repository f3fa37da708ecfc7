//! File names in messages, quoted for the shell if necessary.
//!
//! The rules are those of GNU's programs. A name of harmless characters is not quoted. Other names are put in single
//! quotes, with `$'\n'` for unprintable characters. A name with a single quote and otherwise harmless characters is put
//! in double quotes.

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::locale::{Charset, DecodedChar, Locale};

/// Returns `name` in quotes, as in `extra operand 'x'`.
pub fn quoted(name: impl AsRef<Path>) -> Vec<u8> {
    let name = SplitName::of(name.as_ref());
    name.in_quotes()
}

/// Returns `name`, in quotes if a shell would not accept it unchanged, or if it has a colon.
pub fn quoted_if_needed(name: impl AsRef<Path>) -> Vec<u8> {
    let name = SplitName::of(name.as_ref());
    if name.needs_quotes() {
        name.in_quotes()
    } else {
        name.bytes.to_vec()
    }
}

/// A file name, split into its characters.
struct SplitName<'a> {
    bytes: &'a [u8],
    chars: Vec<NameChar<'a>>,
}

struct NameChar<'a> {
    bytes: &'a [u8],
    shown: bool,
}

impl<'a> SplitName<'a> {
    fn of(path: &'a Path) -> SplitName<'a> {
        let bytes = path.as_os_str().as_bytes();
        let locale = Locale::of_environment();
        let mut chars = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (length, shown) = match locale.decode(rest) {
                DecodedChar::Char(c, length) => (length, locale.is_print(c)),
                DecodedChar::Invalid => (1, false),
                DecodedChar::Incomplete => (rest.len(), false),
            };
            let (now, later) = rest.split_at(length);
            chars.push(NameChar { bytes: now, shown });
            rest = later;
        }
        SplitName { bytes, chars }
    }

    fn needs_quotes(&self) -> bool {
        let special = |(at, c): (usize, &NameChar<'_>)| match c.bytes {
            [b'{' | b'}'] => self.bytes.len() == 1,
            [b'#' | b'~'] => at == 0,
            [c] if b" !\"$&()*;<=>[^`|'?\\:".contains(c) => true,
            _ => !c.shown,
        };
        self.bytes.is_empty() || self.chars.iter().enumerate().any(special)
    }

    /// Returns true if the name fits in double quotes without escapes.
    fn suits_double_quotes(&self) -> bool {
        let harmless = |(at, c): (usize, &NameChar<'_>)| match c.bytes {
            [b'#' | b'~'] => at == 0,
            [b'{' | b'}'] => self.bytes.len() == 1,
            [c] if b"!\"$&()*;<=>[^`|?\\".contains(c) => false,
            _ => c.shown,
        };
        self.bytes.contains(&b'\'') && self.chars.iter().enumerate().all(harmless)
    }

    fn in_quotes(&self) -> Vec<u8> {
        if self.suits_double_quotes() {
            return [b"\"", self.bytes, b"\""].concat();
        }
        let mut out = vec![b'\''];
        // GNU's code processes a name with a single quote twice. The second pass begins in the state in which the first
        // ended: after an escape, if the name ends in one.
        let ended_in_escape = self.chars.last().is_some_and(|c| !c.shown);
        let mut escaping = self.bytes.contains(&b'\'') && ended_in_escape;
        for c in &self.chars {
            match (c.shown, c.bytes) {
                (true, b"'") => {
                    out.extend_from_slice(b"'\\''");
                    escaping = false;
                }
                (true, bytes) => {
                    if escaping {
                        out.extend_from_slice(b"''");
                    }
                    escaping = false;
                    out.extend_from_slice(bytes);
                }
                (false, bytes) => {
                    if !escaping {
                        out.extend_from_slice(b"'$'");
                    }
                    escaping = true;
                    for b in bytes {
                        escape(*b, &mut out);
                    }
                }
            }
        }
        out.push(b'\'');
        out
    }
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    match escape_letter(char::from(byte)) {
        Some(letter) => out.extend_from_slice(&[b'\\', letter]),
        None => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
    }
}

/// Returns the quotation marks of the locale.
pub fn quotation_marks() -> (&'static str, &'static str) {
    match Locale::of_environment().charset() {
        Charset::Utf8 => ("‘", "’"),
        _ => ("'", "'"),
    }
}

/// Returns `text` in the locale's quotation marks, with C escapes for unprintable characters.
pub fn quoted_in_locale(text: &[u8]) -> Vec<u8> {
    let utf8 = Locale::of_environment().charset() == Charset::Utf8;
    let (open, close) = quotation_marks();
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

/// Returns the letter of a character's C escape.
pub fn escape_letter(c: char) -> Option<u8> {
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
