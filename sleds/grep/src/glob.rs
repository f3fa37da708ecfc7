//! Matches file names against shell patterns.

use std::ffi::CString;

use sleds_common::glob;

/// Returns true if `pattern` matches `name`, or, for `anywhere`, the part after any `/` in the name.
pub(super) fn matches(pattern: &[u8], name: &[u8], anywhere: bool) -> bool {
    let Ok(pattern) = CString::new(pattern) else {
        return false;
    };
    let fits =
        |name: &[u8]| CString::new(name).is_ok_and(|name| glob::matches(&pattern, &name, false));
    let starts = (0..name.len()).filter(|at| name[*at] != b'/' && *at > 0 && name[at - 1] == b'/');
    fits(name) || anywhere && starts.into_iter().any(|at| fits(&name[at..]))
}
