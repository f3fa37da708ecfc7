//! File names and shell patterns.
//!
//! The C library compares, because its answer depends on the locale. The unsafe code rests on one
//! invariant: both strings end in a zero byte and live through the call.
#![allow(unsafe_code, reason = "fnmatch has no safe interface")]

use std::ffi::CString;

/// True if `glob` matches `name`, or, for `anywhere`, what follows some `/` in it.
pub(super) fn matches(glob: &[u8], name: &[u8], anywhere: bool) -> bool {
    let Ok(glob) = CString::new(glob) else {
        return false;
    };
    let fits = |name: &[u8]| {
        let Ok(name) = CString::new(name) else {
            return false;
        };
        // SAFETY: both are C strings that live through the call.
        unsafe { libc::fnmatch(glob.as_ptr(), name.as_ptr(), 0) == 0 }
    };
    let starts = (0..name.len()).filter(|at| name[*at] != b'/' && *at > 0 && name[at - 1] == b'/');
    fits(name) || anywhere && starts.into_iter().any(|at| fits(&name[at..]))
}
