//! Characters of a pattern or of a line.

use super::classes;

/// A character, or a byte that is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Char {
    /// A code point in UTF-8, a byte in the C locale.
    Code(u32),
    /// A byte that begins no character in UTF-8.
    Byte(u8),
}

impl Char {
    /// Its place in the order of codes.
    pub(super) fn code(self) -> u32 {
        match self {
            Char::Code(c) => c,
            Char::Byte(b) => u32::from(b),
        }
    }
}

/// Bytes of the UTF-8 character that `text` begins with; zero if it begins with none.
fn len(text: &[u8]) -> usize {
    let tail = |n: usize| {
        let tail = text.get(1..n);
        tail.is_some_and(|t| t.iter().all(|b| b & 0xc0 == 0x80))
    };
    let second = || text.get(1).copied().unwrap_or(0);
    match text.first().copied() {
        Some(0..=0x7f) => 1,
        Some(0xc2..=0xdf) if tail(2) => 2,
        Some(0xe0) if tail(3) && second() >= 0xa0 => 3,
        Some(0xed) if tail(3) && second() < 0xa0 => 3,
        Some(0xe1..=0xec | 0xee..=0xef) if tail(3) => 3,
        Some(0xf0) if tail(4) && second() >= 0x90 => 4,
        Some(0xf4) if tail(4) && second() < 0x90 => 4,
        Some(0xf1..=0xf3) if tail(4) => 4,
        _ => 0,
    }
}

/// The character that `text` begins with, and its length in bytes; `None` if it is empty.
pub(super) fn decode(text: &[u8], utf8: bool) -> Option<(Char, usize)> {
    let first = *text.first()?;
    if !utf8 || first < 0x80 {
        return Some((Char::Code(u32::from(first)), 1));
    }
    let len = len(text);
    if len == 0 {
        return Some((Char::Byte(first), 1));
    }
    let c = std::str::from_utf8(&text[..len]).ok()?.chars().next()?;
    Some((Char::Code(u32::from(c)), len))
}

/// True if a character that may be part of a word begins at `at`.
pub(super) fn word_at(line: &[u8], at: usize, utf8: bool) -> bool {
    match decode(&line[at..], utf8) {
        Some((Char::Code(c), _)) => classes::is_word(c) && (utf8 || c < 0x80),
        _ => false,
    }
}

/// True if the character that byte `at - 1` belongs to may be part of a word.
pub(super) fn word_before(line: &[u8], at: usize, utf8: bool) -> bool {
    if at == 0 {
        return false;
    }
    if !utf8 || line[at - 1] < 0x80 {
        return word_at(line, at - 1, false);
    }
    let covers = |n: &usize| len(&line[at - n..]) >= *n;
    let before = (1..=at.min(4)).find(covers);
    before.is_some_and(|n| word_at(line, at - n, true))
}
