//! Shell patterns for names.
//!
//! The C library does the comparison, because its result depends on the locale. The unsafe code rests on one invariant,
//! which the types guarantee: both strings end in a zero byte and live through the call.
#![allow(unsafe_code, reason = "fnmatch has no safe interface")]

use std::ffi::CStr;

/// Returns true if `name` matches `pattern`; `fold` ignores case.
pub fn matches(pattern: &CStr, name: &CStr, fold: bool) -> bool {
    let flags = if fold { libc::FNM_CASEFOLD } else { 0 };
    // SAFETY: by the module's invariant.
    unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), flags) == 0 }
}
