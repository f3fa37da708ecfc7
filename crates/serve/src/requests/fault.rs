//! What a device's error is to those who asked.

use forebay_device::{DeviceError, Op};

/// The errors that mean something to a peer. Protocols have words for different ones of them; what
/// one has no word for is an I/O error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The device failed.
    Io,
    /// The system has no memory for it.
    NoMemory,
    /// There is no room for what was to be written.
    NoSpace,
    /// It may not be written to.
    ReadOnly,
    /// The request is not in whole blocks: the asker's mistake.
    Unaligned,
    /// The device, or the system, would have none of it.
    Refused,
    /// The device is being taken down.
    Closing,
}

impl Fault {
    pub(crate) fn of(error: &DeviceError) -> Fault {
        match error {
            DeviceError::Unaligned { .. } => Fault::Unaligned,
            _ => Fault::of_system(error.errno()),
        }
    }

    fn of_system(errno: i32) -> Fault {
        match errno {
            libc::EPERM | libc::EACCES | libc::EROFS => Fault::ReadOnly,
            libc::ENOMEM => Fault::NoMemory,
            libc::EINVAL | libc::EOVERFLOW | libc::EOPNOTSUPP => Fault::Refused,
            libc::EFBIG | libc::ENOSPC | libc::EDQUOT => Fault::NoSpace,
            libc::ESHUTDOWN => Fault::Closing,
            _ => Fault::Io,
        }
    }
}

/// The error number for the kernel, which asks for itself and for whoever uses a file or a block
/// device. Few may pass: it gives some a meaning of its own (after one `ENOSYS` to a flush FUSE
/// never sends another and pretends they succeed), and a flush that finds no room has lost writes.
pub fn kernel_errno(error: &DeviceError) -> i32 {
    let is_flush = matches!(error, DeviceError::Io { op: Op::Flush, .. });
    match Fault::of(error) {
        Fault::Unaligned => libc::EINVAL,
        Fault::NoSpace if !is_flush => libc::ENOSPC,
        Fault::ReadOnly => libc::EROFS,
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    fn system(op: Op, errno: i32) -> DeviceError {
        DeviceError::io(op, 0..0, Error::from_raw_os_error(errno))
    }

    #[test]
    fn an_error_that_the_kernel_would_misread_becomes_an_io_error() {
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
                kernel_errno(&system(Op::Flush, errno)),
                libc::EIO,
                "{errno}"
            );
        }
    }

    #[test]
    fn what_the_asker_can_do_something_about_is_told() {
        let unaligned = DeviceError::Unaligned {
            op: Op::WriteZeroes,
            range: 1..2,
            block_size: 512,
        };
        let read_only = DeviceError::ReadOnly { op: Op::Write };
        for (error, errno) in [
            (unaligned, libc::EINVAL),
            (read_only, libc::EROFS),
            (system(Op::Write, libc::ENOSPC), libc::ENOSPC),
            (system(Op::Write, libc::EINVAL), libc::EIO),
        ] {
            assert_eq!(kernel_errno(&error), errno, "{error}");
        }
    }
}
