//! Functions that GNU find takes from the C library: regular expressions, names of users, local time, texts of errors.
//!
//! `-regex` is the library's `re_match` in several syntaxes, and the name of a month depends on the locale. The same
//! library gives the same answers in every locale; a translation into another matcher would not.
//!
//! Invariants: every string argument is a `CStr` or is passed with its length. Every result that points into the
//! library's memory is copied before the next call. The program has one thread when it calls these functions, as
//! `setlocale`, `getpwnam` and `re_set_syntax` require.
#![allow(unsafe_code, reason = "the C library's functions have no safe wrapper")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong};

/// Sets the environment's locale for sorting and for dates. `sleds_common::locale` sets the locale for characters.
pub(super) fn set_locale() {
    for category in [libc::LC_COLLATE, libc::LC_TIME] {
        // SAFETY: an empty string is a valid locale name; no other thread runs.
        unsafe { libc::setlocale(category, c"".as_ptr()) };
    }
}

unsafe extern "C" {
    fn re_set_syntax(syntax: c_ulong) -> c_ulong;
    fn re_compile_pattern(
        pattern: *const c_char,
        length: usize,
        buffer: *mut PatternBuffer,
    ) -> *const c_char;
    fn re_match(
        buffer: *mut PatternBuffer,
        text: *const c_char,
        length: c_int,
        start: c_int,
        registers: *mut libc::c_void,
    ) -> c_int;
}

/// `struct re_pattern_buffer` of `<regex.h>`.
#[repr(C)]
struct PatternBuffer {
    buffer: *mut libc::c_void,
    allocated: c_ulong,
    used: c_ulong,
    syntax: c_ulong,
    fastmap: *mut c_char,
    translate: *mut u8,
    groups: usize,
    bits: c_uint,
}

/// A compiled regular expression.
pub(super) struct GnuRegex {
    buffer: Box<PatternBuffer>,
}

/// Emacs's syntax. The `findutils-default` syntax differs: its dot also matches a newline.
pub(super) const SYNTAX_DEFAULT: u64 = 0;

/// `RE_ICASE` of `<regex.h>`.
pub(super) const IGNORE_CASE: u64 = 1 << 22;

impl GnuRegex {
    /// Compiles `pattern` in the syntax of these `RE_…` bits. The error is the library's text.
    pub(super) fn new(pattern: &[u8], syntax: u64) -> Result<GnuRegex, String> {
        let mut buffer = Box::new(PatternBuffer {
            buffer: std::ptr::null_mut(),
            allocated: 0,
            used: 0,
            syntax,
            fastmap: std::ptr::null_mut(),
            translate: std::ptr::null_mut(),
            groups: 0,
            bits: 0,
        });
        // SAFETY: the library requires an empty buffer with null pointers; the pattern is passed with its length; no
        // other thread sets the syntax.
        let error = unsafe {
            re_set_syntax(syntax);
            re_compile_pattern(pattern.as_ptr().cast(), pattern.len(), &raw mut *buffer)
        };
        if error.is_null() {
            return Ok(GnuRegex { buffer });
        }
        // SAFETY: a static text of the library.
        let text = unsafe { CStr::from_ptr(error) };
        Err(text.to_string_lossy().into_owned())
    }

    /// Returns true if the whole of `text` matches.
    pub(super) fn is_match(&mut self, text: &[u8]) -> bool {
        let Ok(length) = c_int::try_from(text.len()) else {
            return false;
        };
        // SAFETY: the buffer was compiled; the text is passed with its length; registers may be null.
        let matched = unsafe {
            re_match(
                &raw mut *self.buffer,
                text.as_ptr().cast(),
                length,
                0,
                std::ptr::null_mut(),
            )
        };
        matched == length
    }
}

impl Drop for GnuRegex {
    fn drop(&mut self) {
        let buffer: *mut PatternBuffer = &raw mut *self.buffer;
        // SAFETY: `regex_t` is another name of this struct, and the library compiled it.
        unsafe { libc::regfree(buffer.cast()) };
    }
}

/// Returns the number of a user, by name.
pub(super) fn user_id(name: &CStr) -> Option<u32> {
    // SAFETY: the string is terminated; the result is read before the next call.
    unsafe { libc::getpwnam(name.as_ptr()).as_ref() }.map(|entry| entry.pw_uid)
}

/// Returns the number of a group, by name.
pub(super) fn group_id(name: &CStr) -> Option<u32> {
    // SAFETY: as above.
    unsafe { libc::getgrnam(name.as_ptr()).as_ref() }.map(|entry| entry.gr_gid)
}

/// Returns the name of a user.
pub(super) fn user_name(id: u32) -> Option<CString> {
    // SAFETY: the entry and its name are valid until the next call, and are copied before it.
    unsafe {
        let entry = libc::getpwuid(id).as_ref()?;
        Some(CStr::from_ptr(entry.pw_name).to_owned())
    }
}

/// Returns the name of a group.
pub(super) fn group_name(id: u32) -> Option<CString> {
    // SAFETY: as above.
    unsafe {
        let entry = libc::getgrgid(id).as_ref()?;
        Some(CStr::from_ptr(entry.gr_name).to_owned())
    }
}

/// A moment in the time zone of the environment.
#[derive(Clone, Copy)]
pub(super) struct LocalTime(libc::tm);

impl LocalTime {
    /// Converts `seconds` since 1970; `None` if the year overflows.
    pub(super) fn new(seconds: i64) -> Option<LocalTime> {
        // SAFETY: all zeroes are a valid `tm`, and the library fills it.
        unsafe {
            let mut tm: libc::tm = std::mem::zeroed();
            (!libc::localtime_r(&raw const seconds, &raw mut tm).is_null()).then_some(LocalTime(tm))
        }
    }

    /// Returns hour, minute and second.
    pub(super) fn time(&self) -> [i64; 3] {
        [self.0.tm_hour, self.0.tm_min, self.0.tm_sec].map(i64::from)
    }

    /// Formats the moment with `strftime`.
    pub(super) fn format(&self, format: &CStr) -> Vec<u8> {
        let mut text = vec![0_u8; 256];
        // SAFETY: the buffer is passed with its length.
        let length = unsafe {
            libc::strftime(
                text.as_mut_ptr().cast(),
                text.len(),
                format.as_ptr(),
                &raw const self.0,
            )
        };
        text.truncate(length);
        text
    }
}
