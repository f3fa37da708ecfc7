//! One system call.
#![allow(
    unsafe_code,
    reason = "ioctl takes an address, and has no safe wrapper for numbers of one's own"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::ioctls::AtomicCommand;

/// Sends a command to an open file. The argument is read and written only as far as the command specifies.
pub(crate) fn call(
    file: BorrowedFd<'_>,
    command: AtomicCommand,
    argument: &mut [u8],
) -> io::Result<()> {
    let number = command.number(argument.len());
    let len = (number >> 16) as usize & crate::ioctls::ARGUMENT_MAX;
    assert_eq!(
        len,
        argument.len(),
        "the argument is as long as the number says"
    );
    // SAFETY: the kernel reads and writes the number of bytes that is encoded in `number`, which is the argument's
    // length, and keeps no reference.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), number.into(), argument.as_mut_ptr()) };
    match done {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
