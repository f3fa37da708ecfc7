//! Conversion of a device's error into an answer for the client.

use forebay_device::{DeviceError, DeviceOp};

/// The errors that protocols distinguish. Each protocol has codes for some of them, and reports the others as I/O
/// errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestFault {
    /// The device failed.
    Io,
    /// The system has no memory for the request.
    NoMemory,
    /// The device has no free space for the write.
    NoSpace,
    /// The device is read-only.
    ReadOnly,
    /// The request is not in whole blocks: a mistake of the client.
    Unaligned,
    /// The device or the system rejected the request.
    Refused,
    /// The device is being closed.
    Closing,
}

impl RequestFault {
    /// Returns the fault that a device's error means.
    pub fn of(error: &DeviceError) -> RequestFault {
        match error {
            DeviceError::Unaligned { .. } => RequestFault::Unaligned,
            _ => RequestFault::of_system(error.errno()),
        }
    }

    fn of_system(errno: i32) -> RequestFault {
        match errno {
            libc::EPERM | libc::EACCES | libc::EROFS => RequestFault::ReadOnly,
            libc::ENOMEM => RequestFault::NoMemory,
            libc::EINVAL | libc::EOVERFLOW | libc::EOPNOTSUPP => RequestFault::Refused,
            libc::EFBIG | libc::ENOSPC | libc::EDQUOT => RequestFault::NoSpace,
            libc::ESHUTDOWN => RequestFault::Closing,
            _ => RequestFault::Io,
        }
    }
}

/// Returns the error number for the kernel, which passes the number on to the programs that use the file or the block
/// device. Only a few numbers are safe to return, because the kernel gives some a meaning of its own: after one
/// `ENOSYS` to a flush, FUSE never sends another flush and pretends that flushes succeed. `ENOSPC` is not returned for
/// a flush, because a flush that finds no free space has lost writes.
pub fn kernel_errno(error: &DeviceError) -> i32 {
    let is_flush = matches!(
        error,
        DeviceError::Io {
            op: DeviceOp::Flush,
            ..
        }
    );
    match RequestFault::of(error) {
        RequestFault::Unaligned => libc::EINVAL,
        RequestFault::NoSpace if !is_flush => libc::ENOSPC,
        RequestFault::ReadOnly => libc::EROFS,
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    fn system(op: DeviceOp, errno: i32) -> DeviceError {
        DeviceError::io(op, 0..0, Error::from_raw_os_error(errno))
    }

    #[test]
    fn errors_that_the_kernel_would_misinterpret_become_eio() {
        for errno in [
            libc::ENOSYS,
            libc::EOPNOTSUPP,
            libc::EAGAIN,
            libc::EINTR,
            libc::EINVAL,
            libc::ENOSPC,
            0,
            512,
        ] {
            assert_eq!(
                kernel_errno(&system(DeviceOp::Flush, errno)),
                libc::EIO,
                "{errno}"
            );
        }
    }

    #[test]
    fn errors_that_the_client_can_correct_are_returned() {
        let unaligned = DeviceError::Unaligned {
            op: DeviceOp::WriteZeroes,
            range: 1..2,
            block_size: 512,
        };
        let read_only = DeviceError::ReadOnly {
            op: DeviceOp::Write,
        };
        for (error, errno) in [
            (unaligned, libc::EINVAL),
            (read_only, libc::EROFS),
            (system(DeviceOp::Write, libc::ENOSPC), libc::ENOSPC),
            (system(DeviceOp::Write, libc::EINVAL), libc::EIO),
        ] {
            assert_eq!(kernel_errno(&error), errno, "{error}");
        }
    }
}
