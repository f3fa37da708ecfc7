//! Kinds of characters: classes such as `[:alpha:]`, words, and the cases of letters.
//!
//! `classes.txt` contains the results of `iswctype` and `towupper` of glibc 2.36 in C.UTF-8 for every code point, so
//! that the results equal those of other programs on a system with glibc. A line contains a class and its ranges; the
//! last line contains ranges of characters, each with the upper case of its first character.

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

/// Returns the members of a class; `None` for an unknown class.
pub(super) fn class(name: &[u8], utf8: bool) -> Option<CharRanges> {
    let name = NAMES.iter().find(|n| n.as_bytes() == name)?;
    let ranges = line(name).split(' ').map(range);
    if utf8 {
        return Some(CharRanges::new(ranges.collect()));
    }
    let ascii = ranges.filter(|r| r.0 < 0x80);
    Some(CharRanges::new(
        ascii.map(|r| (r.0, r.1.min(0x7f))).collect(),
    ))
}

/// Returns the characters of words: letters, digits and `_`.
pub(super) fn word(utf8: bool) -> CharRanges {
    let mut ranges = class(b"alnum", utf8).unwrap_or_default().ranges().to_vec();
    ranges.push((u32::from(b'_'), u32::from(b'_')));
    CharRanges::new(ranges)
}

/// Returns true if `c` may be part of a word, in UTF-8.
pub(super) fn is_word(c: u32) -> bool {
    static WORD: OnceLock<CharRanges> = OnceLock::new();
    if c < 0x80 {
        return (c as u8).is_ascii_alphanumeric() || c == u32::from(b'_');
    }
    WORD.get_or_init(|| word(true)).contains(c)
}

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

/// Returns the set in either case: all characters whose upper case is the upper case of a member.
pub(super) fn fold(set: &CharRanges, utf8: bool) -> CharRanges {
    let mut ranges = set.ranges().to_vec();
    if !utf8 || ranges.iter().all(|r| r.1 < 0x80) {
        fold_ascii(set, &mut ranges);
        if utf8 {
            // The letters outside ASCII whose upper case is in ASCII.
            for (lower, upper) in [(0x131, 'I'), (0x17f, 'S')] {
                if CharRanges::new(ranges.clone()).contains(u32::from(upper)) {
                    ranges.push((lower, lower));
                }
            }
        }
        return CharRanges::new(ranges);
    }
    let here = |pair: &&(u32, u32)| set.contains(pair.0) || set.contains(pair.1);
    let tops: BTreeSet<u32> = uppers().iter().filter(here).map(|pair| pair.1).collect();
    for (lower, upper) in uppers() {
        if tops.contains(upper) {
            ranges.extend([(*lower, *lower), (*upper, *upper)]);
        }
    }
    CharRanges::new(ranges)
}

fn fold_ascii(set: &CharRanges, ranges: &mut Vec<(u32, u32)>) {
    for c in b'a'..=b'z' {
        let (lower, upper) = (u32::from(c), u32::from(c.to_ascii_uppercase()));
        if set.contains(lower) || set.contains(upper) {
            ranges.extend([(lower, lower), (upper, upper)]);
        }
    }
}

/// Returns the upper case of a character.
pub(super) fn upper(c: u32) -> u32 {
    if c < 0x80 {
        return u32::from((c as u8).to_ascii_uppercase());
    }
    let at = uppers().binary_search_by_key(&c, |pair| pair.0);
    at.map_or(c, |at| uppers()[at].1)
}
