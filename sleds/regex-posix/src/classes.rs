//! Kinds of characters: classes such as `[:alpha:]`, words, and the cases of letters.
//!
//! `classes.txt` contains the results of `iswctype` and `towupper` of glibc 2.36 in C.UTF-8 for every code point, so
//! that the results equal those of other programs on a system with glibc. A line contains a class and its ranges; the
//! last line contains ranges of characters, each with the upper case of its first character. For an encoding with one
//! byte for each character, the caller gives a [`ByteTable`].

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::ast::CharRanges;

const TABLES: &str = include_str!("classes.txt");

const NAMES: [&str; 12] = [
    "alpha", "upper", "lower", "digit", "xdigit", "space", "punct", "alnum", "print", "graph",
    "cntrl", "blank",
];

fn hex(text: &str) -> u32 {
    u32::from_str_radix(text, 16).expect("the tables hold hexadecimal numbers")
}

fn line(name: &str) -> &'static str {
    TABLES
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .expect("the tables hold every class")
}

fn range(text: &str) -> (u32, u32) {
    match text.split_once('-') {
        Some((low, high)) => (hex(low), hex(high)),
        None => (hex(text), hex(text)),
    }
}

/// Classes and cases of the characters of an encoding with one byte for each character, such as ISO-8859-1.
pub struct ByteTable {
    /// For each byte, a bit for each class of [`NAMES`].
    classes: [u16; 256],
    upper: [u8; 256],
}

impl ByteTable {
    /// Makes the table. `is_in` returns true if a byte is in the class with a name such as `alpha`, and `upper` returns
    /// the upper case of a byte.
    pub fn new(is_in: impl Fn(&str, u8) -> bool, upper: impl Fn(u8) -> u8) -> ByteTable {
        let bits = |byte: usize| {
            let members = NAMES.iter().map(|name| is_in(name, byte as u8));
            members.rev().fold(0, |bits, is| bits << 1 | u16::from(is))
        };
        ByteTable {
            classes: std::array::from_fn(bits),
            upper: std::array::from_fn(|byte| upper(byte as u8)),
        }
    }

    fn class(&self, name: &str) -> CharRanges {
        let bit = NAMES.iter().position(|n| *n == name);
        let is = |byte: &u32| bit.is_some_and(|bit| self.classes[*byte as usize] >> bit & 1 == 1);
        CharRanges::of_all((0..=0xff).filter(is))
    }
}

/// Meaning of characters.
#[derive(Clone, Copy)]
pub(super) struct CharRules {
    /// Characters are UTF-8, not bytes.
    pub(super) utf8: bool,
    /// Classes and cases of bytes; `None` for ASCII.
    pub(super) bytes: Option<&'static ByteTable>,
    /// `İ` is the upper case of `i`, as in Turkish.
    pub(super) dotted: bool,
}

impl CharRules {
    /// Returns true if characters outside ASCII may be parts of words.
    pub(super) fn has_wide_words(self) -> bool {
        self.utf8 || self.bytes.is_some()
    }

    /// Returns true if `c` may be part of a word.
    pub(super) fn is_word(self, c: u32) -> bool {
        static WORD: OnceLock<CharRanges> = OnceLock::new();
        if c < 0x80 {
            return (c as u8).is_ascii_alphanumeric() || c == u32::from(b'_');
        }
        match self.bytes {
            _ if self.utf8 => WORD.get_or_init(|| self.word()).contains(c),
            Some(table) => table.class("alnum").contains(c),
            None => false,
        }
    }

    /// Returns the characters of words: letters, digits and `_`.
    pub(super) fn word(self) -> CharRanges {
        let mut ranges = self
            .class(b"alnum")
            .map_or(Vec::new(), |set| set.ranges().to_vec());
        ranges.push((u32::from(b'_'), u32::from(b'_')));
        CharRanges::new(ranges)
    }

    /// Returns the members of a class; `None` for an unknown class.
    pub(super) fn class(self, name: &[u8]) -> Option<CharRanges> {
        let name = NAMES.iter().find(|n| n.as_bytes() == name)?;
        if let Some(table) = self.bytes.filter(|_| !self.utf8) {
            return Some(table.class(name));
        }
        let ranges = line(name).split(' ').map(range);
        if self.utf8 {
            return Some(CharRanges::new(ranges.collect()));
        }
        let ascii = ranges.filter(|r| r.0 < 0x80);
        Some(CharRanges::new(
            ascii.map(|r| (r.0, r.1.min(0x7f))).collect(),
        ))
    }

    /// Returns the upper case of a character.
    pub(super) fn upper(self, c: u32) -> u32 {
        if let Some(table) = self.bytes.filter(|_| !self.utf8) {
            return u32::from(table.upper[c as usize & 0xff]);
        }
        if self.dotted && c == u32::from(b'i') {
            return CAPITAL_DOTTED_I;
        }
        if c < 0x80 {
            return u32::from((c as u8).to_ascii_uppercase());
        }
        if !self.utf8 {
            return c;
        }
        let at = uppers().binary_search_by_key(&c, |pair| pair.0);
        at.map_or(c, |at| uppers()[at].1)
    }

    /// Returns the set in either case: all characters whose upper case is the upper case of a member.
    pub(super) fn fold(self, set: &CharRanges) -> CharRanges {
        let mut ranges = set.ranges().to_vec();
        if self.bytes.is_some() && !self.utf8 {
            let tops: BTreeSet<u32> = (0..=0xff)
                .filter(|c| set.contains(*c))
                .map(|c| self.upper(c))
                .collect();
            let same = (0..=0xff).filter(|c| tops.contains(&self.upper(*c)));
            ranges.extend(same.map(|c| (c, c)));
            return CharRanges::new(ranges);
        }
        if !self.utf8 || !self.dotted && ranges.iter().all(|r| r.1 < 0x80) {
            fold_ascii(set, &mut ranges);
            if self.utf8 {
                // The letters outside ASCII whose upper case is in ASCII.
                for (lower, upper) in [(0x131, 'I'), (0x17f, 'S')] {
                    if CharRanges::new(ranges.clone()).contains(u32::from(upper)) {
                        ranges.push((lower, lower));
                    }
                }
            }
            return CharRanges::new(ranges);
        }
        let pairs = || uppers().iter().map(|(c, _)| (*c, self.upper(*c)));
        let here = |pair: &(u32, u32)| set.contains(pair.0) || set.contains(pair.1);
        let tops: BTreeSet<u32> = pairs().filter(here).map(|pair| pair.1).collect();
        for (lower, upper) in pairs().filter(|pair| tops.contains(&pair.1)) {
            ranges.extend([(lower, lower), (upper, upper)]);
        }
        CharRanges::new(ranges)
    }
}

/// `İ`
const CAPITAL_DOTTED_I: u32 = 0x130;

/// Returns the characters that differ from their upper case, with the upper case, by character.
fn uppers() -> &'static [(u32, u32)] {
    static UPPERS: OnceLock<Vec<(u32, u32)>> = OnceLock::new();
    UPPERS.get_or_init(|| {
        let runs = line("toupper").split(' ').filter_map(|run| {
            let (chars, upper) = run.split_once(':')?;
            let (low, high) = range(chars);
            Some((low..=high).zip(hex(upper)..))
        });
        runs.flatten().collect()
    })
}

fn fold_ascii(set: &CharRanges, ranges: &mut Vec<(u32, u32)>) {
    for c in b'a'..=b'z' {
        let (lower, upper) = (u32::from(c), u32::from(c.to_ascii_uppercase()));
        if set.contains(lower) || set.contains(upper) {
            ranges.extend([(lower, lower), (upper, upper)]);
        }
    }
}
