//! File names in messages, quoted for the shell where they need it.
//!
//! As GNU's programs do it: a name of harmless characters stands as it is; others stand in single
//! quotes, with `$'\n'` for what cannot be shown; one with a single quote and otherwise harmless
//! characters stands in double quotes.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::locale::{Decoded, Locale};

/// `name` in quotes, as in `extra operand 'x'`.
pub fn quoted(name: impl AsRef<Path>) -> Vec<u8> {
    let name = Name::of(name.as_ref());
    name.in_quotes()
}

/// `name`, in quotes if a shell would not take it as it is or if it has a colon.
pub fn quoted_if_needed(name: impl AsRef<Path>) -> Vec<u8> {
    let name = Name::of(name.as_ref());
    match name.needs_quotes() {
        true => name.in_quotes(),
        false => name.bytes.to_vec(),
    }
}

/// A file name, cut into its characters.
struct Name<'a> {
    bytes: &'a [u8],
    chars: Vec<Char<'a>>,
}

struct Char<'a> {
    bytes: &'a [u8],
    shown: bool,
}

impl<'a> Name<'a> {
    fn of(path: &'a Path) -> Name<'a> {
        let bytes = path.as_os_str().as_bytes();
        let locale = Locale::of_environment();
        let mut chars = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (length, shown) = match locale.decode(rest) {
                Decoded::Char(c, length) => (length, locale.is_print(c)),
                Decoded::Invalid => (1, false),
                Decoded::Incomplete => (rest.len(), false),
            };
            let (now, later) = rest.split_at(length);
            chars.push(Char { bytes: now, shown });
            rest = later;
        }
        Name { bytes, chars }
    }

    fn needs_quotes(&self) -> bool {
        let special = |(at, c): (usize, &Char<'_>)| match c.bytes {
            [b'{' | b'}'] => self.bytes.len() == 1,
            [b'#' | b'~'] => at == 0,
            [c] if b" !\"$&()*;<=>[^`|'?\\:".contains(c) => true,
            _ => !c.shown,
        };
        self.bytes.is_empty() || self.chars.iter().enumerate().any(special)
    }

    /// True if double quotes can hold it with nothing escaped.
    fn suits_double_quotes(&self) -> bool {
        let harmless = |(at, c): (usize, &Char<'_>)| match c.bytes {
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
        // Of a name with a single quote GNU's code makes two rounds, and the second begins as the
        // first ended: after an escape, if there was one at the end.
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
                    bytes.iter().for_each(|b| escape(*b, &mut out));
                }
            }
        }
        out.push(b'\'');
        out
    }
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        0x07 => b'a',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0b => b'v',
        0x0c => b'f',
        b'\r' => b'r',
        _ => return out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
    };
    out.extend_from_slice(&[b'\\', short]);
}
