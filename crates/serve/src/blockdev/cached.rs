//! What the page cache has of a block device.
#![allow(
    unsafe_code,
    reason = "one system call with plain numbers, that no safe wrapper exists for"
)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Writes back what the page cache has of a block device, without a flush: that would fail for as long as
/// the volume cannot make anything durable, and whoever closes the volume flushes it anyway.
///
/// # Errors
/// What the system said. What could not be written is lost, and said once: the next call succeeds.
pub(super) fn write_back(device: &File) -> io::Result<()> {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: takes numbers only; from 0 to the end.
    match unsafe { libc::sync_file_range(device.as_raw_fd(), 0, 0, all) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
