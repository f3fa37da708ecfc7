//! Ranges, and characters that count as the same: `[a-z]`, `[=e=]`, `[.-.]`.
//!
//! In the C locale and in C.UTF-8 characters are in the order of their codes, and of those outside
//! ASCII nothing is known. Elsewhere the order is the locale's (in many, `é` lies between `a` and
//! `z`), and the C library is asked, which is what GNU grep leaves these to as well.
//!
//! The unsafe code rests on one invariant: a [`Pattern`] is made by `regcomp` with success, is not
//! moved, and is given back once, when dropped.
#![allow(unsafe_code, reason = "the C library's regex has no safe interface")]

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::ast::Set;
use super::classes;
use super::error::Error;
use super::text::Char;

/// The characters from `low` to `high` in the order of codes; with `upper`, only those that are no
/// small letters.
pub(super) fn range_by_code(
    (low, high): (Char, Char),
    utf8: bool,
    upper: bool,
) -> Result<Set, Error> {
    let unknown = |c: Char| utf8 && matches!(c, Char::Code(0x80..));
    if unknown(low) || unknown(high) {
        return Err(Error::Collation);
    }
    let (low, high) = (low.code(), high.code());
    if low > high {
        return Err(Error::Range);
    }
    let small = |c: &u32| upper && (0x61..=0x7a).contains(c);
    Ok(Set::of_all((low..=high).filter(|c| !small(c))))
}

/// What `[=NAME=]` or `[.NAME.]` is where the order is that of codes.
pub(super) fn by_code(name: &[u8]) -> Result<Set, Error> {
    match name {
        [byte] => Ok(Set::of(u32::from(*byte))),
        _ => Err(Error::Collation),
    }
}

/// The characters from `low` to `high` in the order of the locale, which is in UTF-8; `item` is the
/// range as it stands in brackets. With `upper`, only those that are no small letters.
pub(super) fn range_by_locale(
    (low, high): (Char, Char),
    item: &[u8],
    upper: bool,
) -> Result<Set, Error> {
    remembered(item, upper, &|| {
        // It says what is wrong.
        let pattern = Pattern::new(item, upper)?;
        let plain = !item.contains(&b'[');
        let set = match (low, high) {
            (Char::Code(low), Char::Code(high)) if plain => asked_by_glob(low, high),
            _ => asked(true, &|c| pattern.matches(c)),
        };
        let capitals = set.into_iter();
        let capitals = capitals.filter(|c| !upper || classes::upper(*c) == *c);
        Ok(Set::of_all(capitals))
    })
}

/// The characters of `[=c=]` or `[.c.]`, as it stands in brackets, likewise.
pub(super) fn by_locale(item: &[u8]) -> Result<Set, Error> {
    remembered(item, false, &|| {
        let pattern = Pattern::new(item, false)?;
        let ideographs = String::from_utf8_lossy(item)
            .chars()
            .any(|c| c >= IDEOGRAPHS);
        Ok(Set::of_all(asked(ideographs, &|c| pattern.matches(c))))
    })
}

/// What `ask` answers. It is asked once about each item, although patterns are read twice.
fn remembered(
    item: &[u8],
    upper: bool,
    ask: &dyn Fn() -> Result<Set, Error>,
) -> Result<Set, Error> {
    type Answers = HashMap<(Vec<u8>, bool), Result<Set, Error>>;
    static ANSWERS: LazyLock<Mutex<Answers>> = LazyLock::new(Mutex::default);
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = answers.entry((item.to_vec(), upper));
    answer.or_insert_with(ask).clone()
}

/// The characters of a range, by the library's patterns for names of files: the same question, ten
/// times as fast.
fn asked_by_glob(low: u32, high: u32) -> Vec<u32> {
    let [low, high] = [low, high].map(|c| char::from_u32(c).unwrap_or_default());
    let Ok(glob) = CString::new(format!("[\\{low}-\\{high}]")) else {
        return Vec::new();
    };
    let ideographs = low.max(high) >= IDEOGRAPHS;
    asked(ideographs, &|c| matches(&glob, c))
}

fn matches(glob: &CStr, text: &str) -> bool {
    let Ok(text) = CString::new(text) else {
        return false;
    };
    // SAFETY: both are C strings that live through the call.
    unsafe { libc::fnmatch(glob.as_ptr(), text.as_ptr(), 0) == 0 }
}

/// Code points that locales have an order for.
const ASKED: [(u32, u32); 2] = [(1, 0x3_ffff), (0xe_0000, 0xe_01ff)];

/// Scripts with thousands of characters, which come behind all that are before this one.
const IDEOGRAPHS: char = '\u{2e80}';
const HUGE: [(u32, u32); 3] = [(0x3400, 0x9fff), (0xac00, 0xf8ff), (0x2_0000, 0x3_ffff)];

/// The characters for which `is` says so.
fn asked(ideographs: bool, is: &dyn Fn(&str) -> bool) -> Vec<u32> {
    let huge = |c: &u32| HUGE.iter().any(|r| (r.0..=r.1).contains(c));
    let all = ASKED.into_iter().flat_map(|r| r.0..=r.1);
    let some = all.filter(|c| ideographs || !huge(c));
    let chars = some.filter_map(char::from_u32);
    let found = chars.filter(|c| is(c.encode_utf8(&mut [0; 4])));
    found.map(u32::from).collect()
}

/// A bracket expression with one item.
struct Pattern(Box<libc::regex_t>);

impl Pattern {
    fn new(item: &[u8], icase: bool) -> Result<Pattern, Error> {
        let text = CString::new([b"[", item, b"]"].concat());
        let text = text.map_err(|_| Error::Collation)?;
        let mut regex = Box::new(MaybeUninit::<libc::regex_t>::uninit());
        let flags = libc::REG_NOSUB | if icase { libc::REG_ICASE } else { 0 };
        // SAFETY: there is room for a pattern, and the text ends in a zero byte.
        let code = unsafe { libc::regcomp(regex.as_mut_ptr(), text.as_ptr(), flags) };
        match code {
            // SAFETY: `regcomp` has filled it in.
            0 => Ok(Pattern(unsafe { regex.assume_init() })),
            libc::REG_ERANGE => Err(Error::Range),
            _ => Err(Error::Collation),
        }
    }

    fn matches(&self, text: &str) -> bool {
        let Ok(text) = CString::new(text) else {
            return false;
        };
        // SAFETY: by the module's invariant; the string ends in a zero byte, and no matches are
        // asked for.
        unsafe { libc::regexec(&*self.0, text.as_ptr(), 0, std::ptr::null_mut(), 0) == 0 }
    }
}

impl Drop for Pattern {
    fn drop(&mut self) {
        // SAFETY: by the module's invariant.
        unsafe { libc::regfree(&mut *self.0) }
    }
}
