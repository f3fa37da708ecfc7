//! Write-back of a block device's page cache.
#![allow(
    unsafe_code,
    reason = "one system call with plain numbers, that no safe wrapper exists for"
)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Writes back the page cache of a block device, without a flush. A flush would fail as long as the volume cannot make
/// data durable, and closing the volume flushes anyway.
///
/// # Errors
/// The system's error. The failed writes are lost, and reported only once: the next call succeeds.
pub fn write_back(device: &File) -> io::Result<()> {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the call takes numbers only; 0 and 0 mean from the start to the end.
    match unsafe { libc::sync_file_range(device.as_raw_fd(), 0, 0, all) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
