//! Comparison of an operation's result with the expected result.

use forebay_dfs::FsError;

use super::model::ExpectedError;

/// Description of a violation.
pub(super) type ViolationText = String;
/// Result of an operation: true if it was executed.
pub(super) type StepResult = Result<bool, ViolationText>;

/// Returns the reason of a refusal, or `None` if the device failed or space was missing.
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

/// Compares the result of an operation with the model's result. Returns true if the operation was executed.
///
/// # Errors
/// If the results differ.
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

/// Checks that lack of space did not prevent an operation that frees space. Such operations always have enough space.
///
/// # Errors
/// If the operation failed for lack of space.
pub(super) fn makes_room<T>(what: &str, got: &Result<T, FsError>) -> Result<(), ViolationText> {
    match got {
        Err(FsError::Space(error)) if error.lacks_space() => Err(format!("{what}: {error}")),
        _ => Ok(()),
    }
}
