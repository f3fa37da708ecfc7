//! Ranges and equivalent characters in brackets: `[a-z]`, `[=e=]`, `[.-.]`.
//!
//! In the C locale and in C.UTF-8 characters are in the order of their codes. Elsewhere the order is the locale's (in
//! many, `é` lies between `a` and `z`), and the C library decides about each character. Its patterns for file names
//! (`fnmatch`) have equal brackets, and are ten times as fast as its regular expressions.
//!
//! The unsafe code rests on one invariant: both strings end in a zero byte and live through the call.
#![allow(unsafe_code, reason = "fnmatch has no safe interface")]

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::ast::CharRanges;
use super::error::PatternError;
use super::options::RegexOptions;
use super::text::{PatternChar, decode};

/// An element in brackets, except classes.
#[derive(Clone, Copy)]
pub(super) enum BracketElement<'t> {
    Char(PatternChar),
    /// `[.c.]`, with its content.
    Symbol(&'t [u8]),
    /// `[=c=]`, with its content.
    Equivalent(&'t [u8]),
}

impl BracketElement<'_> {
    /// Returns the text of the element in brackets of the C library.
    fn text(self) -> Vec<u8> {
        match self {
            BracketElement::Char(c) => match char::from_u32(c.code()) {
                Some(c) => format!("\\{c}").into_bytes(),
                None => Vec::new(),
            },
            BracketElement::Symbol(name) => [b"[.", name, b".]"].concat(),
            BracketElement::Equivalent(name) => [b"[=", name, b"=]"].concat(),
        }
    }

    /// Returns the character of the element as an end of a range.
    fn end(self, utf8: bool) -> Result<PatternChar, PatternError> {
        match self {
            BracketElement::Char(c) => Ok(c),
            BracketElement::Symbol(name) => single(name, utf8),
            BracketElement::Equivalent(_) => Err(PatternError::Range),
        }
    }
}

/// Returns the only character of `name`.
fn single(name: &[u8], utf8: bool) -> Result<PatternChar, PatternError> {
    match decode(name, utf8) {
        Some((c, len)) if len == name.len() => Ok(c),
        _ => Err(PatternError::Collation),
    }
}

fn is_digit(c: &u32) -> bool {
    (u32::from(b'0')..=u32::from(b'9')).contains(c)
}

/// Returns the characters from `low` to `high`. A range between two ASCII digits has the order of codes in every
/// locale, as in GNU grep: otherwise `[0-9]` would contain `²`.
pub(super) fn range(
    low: BracketElement<'_>,
    high: BracketElement<'_>,
    options: RegexOptions,
) -> Result<CharRanges, PatternError> {
    let (first, last) = (low.end(options.utf8)?, high.end(options.utf8)?);
    let (first, last) = (first.code(), last.code());
    let digits = matches!(
        (low, high),
        (BracketElement::Char(_), BracketElement::Char(_))
    ) && [first, last].iter().all(is_digit);
    let set = if options.by_locale() && !digits {
        let item = [&low.text()[..], b"-", &high.text()].concat();
        by_locale(item, first.max(last) >= IDEOGRAPHS)
    } else if first <= last {
        CharRanges::new(vec![(first, last)])
    } else {
        CharRanges::default()
    };
    if set.ranges().is_empty() {
        Err(PatternError::Range)
    } else {
        Ok(set)
    }
}

/// Returns the characters of `[.c.]` or `[=c=]`.
pub(super) fn one(
    element: BracketElement<'_>,
    options: RegexOptions,
) -> Result<CharRanges, PatternError> {
    let (BracketElement::Symbol(name) | BracketElement::Equivalent(name)) = element else {
        return Err(PatternError::Collation);
    };
    if !options.by_locale() {
        return Ok(CharRanges::of(single(name, options.utf8)?.code()));
    }
    let text = String::from_utf8_lossy(name);
    let ideographs = text.chars().any(|c| u32::from(c) >= IDEOGRAPHS);
    let set = by_locale(element.text(), ideographs);
    if set.ranges().is_empty() {
        Err(PatternError::Collation)
    } else {
        Ok(set)
    }
}

/// Code points that have an order in locales.
const ASKED: [(u32, u32); 2] = [(1, 0x3_ffff), (0xe_0000, 0xe_01ff)];

/// Start of the scripts with thousands of characters. They come behind all characters before this one.
const IDEOGRAPHS: u32 = 0x2e80;
const HUGE: [(u32, u32); 3] = [(0x3400, 0x9fff), (0xac00, 0xf8ff), (0x2_0000, 0x3_ffff)];

/// Returns the characters that match `item` in the locale, with or without `ideographs`. The C library is asked once
/// about each item, since lists of patterns repeat items.
fn by_locale(item: Vec<u8>, ideographs: bool) -> CharRanges {
    static ANSWERS: LazyLock<Mutex<HashMap<Vec<u8>, CharRanges>>> = LazyLock::new(Mutex::default);
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(glob) = CString::new([b"[", &item[..], b"]"].concat()) else {
        return CharRanges::default();
    };
    let ask = || {
        let huge = |c: &u32| HUGE.iter().any(|r| (r.0..=r.1).contains(c));
        let all = ASKED.into_iter().flat_map(|r| r.0..=r.1);
        let some = all.filter(|c| ideographs || !huge(c));
        let chars = some.filter_map(char::from_u32);
        CharRanges::of_all(chars.filter(|c| matches(&glob, *c)).map(u32::from))
    };
    answers.entry(item).or_insert_with(ask).clone()
}

fn matches(glob: &CStr, c: char) -> bool {
    let Ok(text) = CString::new(c.encode_utf8(&mut [0; 4]).as_bytes()) else {
        return false;
    };
    // SAFETY: both are C strings that live through the call.
    unsafe { libc::fnmatch(glob.as_ptr(), text.as_ptr(), 0) == 0 }
}
