//! Characters of a pattern or of a line.

use super::classes::CharRules;

/// A character, or a byte that is not part of a character.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PatternChar {
    /// A code point in UTF-8, a byte in the C locale.
    Code(u32),
    /// A byte that begins no character in UTF-8.
    Byte(u8),
}

impl PatternChar {
    /// Returns the place of the character in the order of codes.
    pub(super) fn code(self) -> u32 {
        match self {
            PatternChar::Code(c) => c,
            PatternChar::Byte(b) => u32::from(b),
        }
    }
}

/// Returns the first character of `text`, and its length in bytes; `None` if `text` is empty.
pub(super) fn decode(text: &[u8], utf8: bool) -> Option<(PatternChar, usize)> {
    let first = *text.first()?;
    if !utf8 || first < 0x80 {
        return Some((PatternChar::Code(u32::from(first)), 1));
    }
    let near = &text[..text.len().min(4)];
    Some(match near.utf8_chunks().next()?.valid().chars().next() {
        Some(c) => (PatternChar::Code(u32::from(c)), c.len_utf8()),
        None => (PatternChar::Byte(first), 1),
    })
}

/// Returns true if a character that may be part of a word begins at `at`.
pub(super) fn word_at(line: &[u8], at: usize, rules: CharRules) -> bool {
    match decode(&line[at..], rules.utf8) {
        Some((PatternChar::Code(c), _)) => rules.is_word(c),
        _ => false,
    }
}

/// Returns true if the character that contains byte `at - 1` may be part of a word.
pub(super) fn word_before(line: &[u8], at: usize, rules: CharRules) -> bool {
    if at == 0 {
        return false;
    }
    if !rules.utf8 || line[at - 1] < 0x80 {
        return word_at(line, at - 1, rules);
    }
    let covers = |n: &usize| {
        let found = decode(&line[at - n..], true);
        matches!(found, Some((PatternChar::Code(_), len)) if len >= *n)
    };
    let before = (1..=at.min(4)).find(covers);
    before.is_some_and(|n| word_at(line, at - n, rules))
}
