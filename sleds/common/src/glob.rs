//! Patterns of names, as shells have them.
//!
//! The C library compares, because its answer depends on the locale. The unsafe code rests on one
//! invariant, which the types keep: both strings end in a zero byte and live through the call.
#![allow(unsafe_code, reason = "fnmatch has no safe interface")]

use std::ffi::CStr;

/// Whether `name` matches `pattern`; `fold`: whatever the case.
pub fn matches(pattern: &CStr, name: &CStr, fold: bool) -> bool {
    let flags = if fold { libc::FNM_CASEFOLD } else { 0 };
    // SAFETY: by the module's invariant.
    unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), flags) == 0 }
}
