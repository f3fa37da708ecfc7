//! Why something is not done, and what flags of files forbid.

use forebay_dfs::FileFlags;

/// Why something is not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpectedError {
    /// There is no such name.
    NotFound,
    /// The name is taken.
    Exists,
    /// It is no directory.
    NotDirectory,
    /// It is one.
    IsDirectory,
    /// There is something in it.
    NotEmpty,
    /// It cannot be.
    Invalid,
    /// There is no data from there on.
    BeyondEnd,
    /// There is no such attribute.
    NoAttribute,
    /// A flag of the file forbids it.
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
