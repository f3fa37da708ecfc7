//! Reasons of refusals, and the operations that file flags forbid.

use forebay_dfs::FileFlags;

/// Reason of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpectedError {
    /// The name does not exist.
    NotFound,
    /// The name exists.
    Exists,
    /// The file is not a directory.
    NotDirectory,
    /// The file is a directory.
    IsDirectory,
    /// The directory is not empty.
    NotEmpty,
    /// The request is invalid.
    Invalid,
    /// The file has no data from this offset on.
    BeyondEnd,
    /// The attribute does not exist.
    NoAttribute,
    /// A flag of the file forbids the operation.
    Protected,
}

pub(super) fn may_grow(flags: FileFlags) -> Result<(), ExpectedError> {
    if flags.has(FileFlags::IMMUTABLE) {
        Err(ExpectedError::Protected)
    } else {
        Ok(())
    }
}

pub(super) fn may_change(flags: FileFlags) -> Result<(), ExpectedError> {
    let protect = FileFlags::IMMUTABLE.with(FileFlags::APPEND_ONLY);
    if flags.has(protect) {
        Err(ExpectedError::Protected)
    } else {
        Ok(())
    }
}
