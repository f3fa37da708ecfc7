//! Conversion of errors to error numbers.

use forebay_dfs::FsError;
use forebay_frontend::requests::kernel_errno;
use forebay_vsl::SpaceError;

/// Result of an ioctl: its output data.
pub(crate) type IoctlResult = std::result::Result<Vec<u8>, IoctlError>;

/// Reason why an ioctl failed.
pub(crate) enum IoctlError {
    Errno(i32),
    Fs(FsError),
}

impl From<i32> for IoctlError {
    fn from(errno: i32) -> IoctlError {
        IoctlError::Errno(errno)
    }
}

impl From<FsError> for IoctlError {
    fn from(error: FsError) -> IoctlError {
        IoctlError::Fs(error)
    }
}

/// Returns the number of an error.
pub(crate) fn errno(error: &FsError) -> i32 {
    match error {
        FsError::NotFound => libc::ENOENT,
        FsError::Exists => libc::EEXIST,
        FsError::NotDirectory => libc::ENOTDIR,
        FsError::IsDirectory => libc::EISDIR,
        FsError::NotEmpty => libc::ENOTEMPTY,
        FsError::NameTooLong => libc::ENAMETOOLONG,
        FsError::Invalid(_) => libc::EINVAL,
        FsError::Protected => libc::EPERM,
        FsError::BeyondEnd => libc::ENXIO,
        FsError::NoAttribute => libc::ENODATA,
        FsError::TooLarge(_) => libc::EFBIG,
        FsError::TooMuch { .. } => libc::E2BIG,
        FsError::Links => libc::EMLINK,
        FsError::Attributes(_) | FsError::Files(_) | FsError::Crowded => libc::ENOSPC,
        FsError::PreallocatedRanges => libc::EOPNOTSUPP,
        // "Structure needs cleaning", as in other filesystems.
        FsError::Damaged { .. } | FsError::Contradiction { .. } => libc::EUCLEAN,
        FsError::Space(error) => match error {
            error if error.lacks_space() => libc::ENOSPC,
            SpaceError::Batch(_) => libc::EINVAL,
            SpaceError::Device(error) => kernel_errno(error),
            _ => libc::EIO,
        },
    }
}

/// Returns true if the error is common in any filesystem and needs no log message.
pub(crate) fn is_usual(error: &FsError) -> bool {
    match error {
        FsError::Damaged { .. } | FsError::Contradiction { .. } => false,
        FsError::Space(error) => error.lacks_space(),
        _ => true,
    }
}
