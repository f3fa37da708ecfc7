//! What an operation should come to, and what it came to.

use forebay_dfs::FsError;

use super::model::ExpectedError;

/// What must not be.
pub(super) type ViolationText = String;
/// What comes of an operation: whether it was done.
pub(super) type StepResult = Result<bool, ViolationText>;

/// Why the filesystem refuses, if it is not for its device or for want of room.
pub(super) fn wrong(error: &FsError) -> Option<ExpectedError> {
    Some(match error {
        FsError::NotFound => ExpectedError::NotFound,
        FsError::Exists => ExpectedError::Exists,
        FsError::NotDirectory => ExpectedError::NotDirectory,
        FsError::IsDirectory => ExpectedError::IsDirectory,
        FsError::NotEmpty => ExpectedError::NotEmpty,
        FsError::Invalid(_) => ExpectedError::Invalid,
        FsError::BeyondEnd => ExpectedError::BeyondEnd,
        FsError::NoAttribute => ExpectedError::NoAttribute,
        FsError::Protected => ExpectedError::Protected,
        _ => return None,
    })
}

/// Whether what came is what was to come; what is given is whether it was done.
pub(super) fn as_expected<T, U>(
    what: impl Fn() -> String,
    expected: &Result<T, ExpectedError>,
    got: &Result<U, FsError>,
) -> StepResult {
    match (expected, got) {
        (Ok(_), Ok(_)) => Ok(true),
        (_, Err(FsError::Space(_))) => Ok(false),
        (Err(expected), Err(error)) if wrong(error) == Some(*expected) => Ok(false),
        (Ok(_), Err(error)) => Err(format!("{}: {error}", what())),
        (Err(expected), Err(error)) => Err(format!("{}: {error}, not {expected:?}", what())),
        (Err(expected), Ok(_)) => Err(format!("{}: done, and not {expected:?}", what())),
    }
}

/// The same of something that makes room, for which there is always enough.
pub(super) fn makes_room<T>(what: &str, got: &Result<T, FsError>) -> Result<(), ViolationText> {
    match got {
        Err(FsError::Space(error)) if error.lacks_space() => Err(format!("{what}: {error}")),
        _ => Ok(()),
    }
}
