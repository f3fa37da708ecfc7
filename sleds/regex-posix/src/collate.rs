//! Ranges, and characters that count as the same: `[a-z]`, `[=e=]`, `[.-.]`.
//!
//! In the C locale and in C.UTF-8 characters are in the order of their codes. Elsewhere the order is
//! the locale's (in many, `é` lies between `a` and `z`), and the C library is asked about each
//! character: its patterns for names of files have the same brackets, and answer ten times as fast as
//! its regular expressions.
//!
//! The unsafe code rests on one invariant: both strings end in a zero byte and live through the call.
#![allow(unsafe_code, reason = "fnmatch has no safe interface")]

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::ast::Set;
use super::error::Error;
use super::options::Options;
use super::text::{Char, decode};

/// What may be in brackets, besides classes.
#[derive(Clone, Copy)]
pub(super) enum Element<'t> {
    Char(Char),
    /// `[.c.]`, with what is inside.
    Symbol(&'t [u8]),
    /// `[=c=]`, likewise.
    Equivalent(&'t [u8]),
}

impl Element<'_> {
    /// Its text in brackets of the C library.
    fn text(self) -> Vec<u8> {
        match self {
            Element::Char(c) => match char::from_u32(c.code()) {
                Some(c) => format!("\\{c}").into_bytes(),
                None => Vec::new(),
            },
            Element::Symbol(name) => [b"[.", name, b".]"].concat(),
            Element::Equivalent(name) => [b"[=", name, b"=]"].concat(),
        }
    }

    /// The character that it is as an end of a range.
    fn end(self, utf8: bool) -> Result<Char, Error> {
        match self {
            Element::Char(c) => Ok(c),
            Element::Symbol(name) => single(name, utf8),
            Element::Equivalent(_) => Err(Error::Range),
        }
    }
}

/// The only character of `name`.
fn single(name: &[u8], utf8: bool) -> Result<Char, Error> {
    match decode(name, utf8) {
        Some((c, len)) if len == name.len() => Ok(c),
        _ => Err(Error::Collation),
    }
}

/// The characters from `low` to `high`.
pub(super) fn range(low: Element<'_>, high: Element<'_>, options: Options) -> Result<Set, Error> {
    let (first, last) = (low.end(options.utf8)?, high.end(options.utf8)?);
    let (first, last) = (first.code(), last.code());
    let set = if options.by_locale() {
        let item = [&low.text()[..], b"-", &high.text()].concat();
        by_locale(item, first.max(last) >= IDEOGRAPHS)
    } else if first <= last {
        Set::new(vec![(first, last)])
    } else {
        Set::default()
    };
    if set.ranges().is_empty() {
        Err(Error::Range)
    } else {
        Ok(set)
    }
}

/// The characters of `[.c.]` or `[=c=]`.
pub(super) fn one(element: Element<'_>, options: Options) -> Result<Set, Error> {
    let (Element::Symbol(name) | Element::Equivalent(name)) = element else {
        return Err(Error::Collation);
    };
    if !options.by_locale() {
        return Ok(Set::of(single(name, options.utf8)?.code()));
    }
    let text = String::from_utf8_lossy(name);
    let ideographs = text.chars().any(|c| u32::from(c) >= IDEOGRAPHS);
    let set = by_locale(element.text(), ideographs);
    if set.ranges().is_empty() {
        Err(Error::Collation)
    } else {
        Ok(set)
    }
}

/// Code points that locales have an order for.
const ASKED: [(u32, u32); 2] = [(1, 0x3_ffff), (0xe_0000, 0xe_01ff)];

/// Scripts with thousands of characters, which come behind all that are before this one.
const IDEOGRAPHS: u32 = 0x2e80;
const HUGE: [(u32, u32); 3] = [(0x3400, 0x9fff), (0xac00, 0xf8ff), (0x2_0000, 0x3_ffff)];

/// The characters that are `item` in the locale, with or without `ideographs`. It is asked once about
/// each item, as lists of patterns repeat them.
fn by_locale(item: Vec<u8>, ideographs: bool) -> Set {
    static ANSWERS: LazyLock<Mutex<HashMap<Vec<u8>, Set>>> = LazyLock::new(Mutex::default);
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(glob) = CString::new([b"[", &item[..], b"]"].concat()) else {
        return Set::default();
    };
    let ask = || {
        let huge = |c: &u32| HUGE.iter().any(|r| (r.0..=r.1).contains(c));
        let all = ASKED.into_iter().flat_map(|r| r.0..=r.1);
        let some = all.filter(|c| ideographs || !huge(c));
        let chars = some.filter_map(char::from_u32);
        Set::of_all(chars.filter(|c| matches(&glob, *c)).map(u32::from))
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
