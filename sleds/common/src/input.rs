//! Opens files by name; `-` is standard input.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use rustix::fd::AsFd as _;

/// Opens the file called `name`; "-" is standard input.
///
/// # Errors
/// If the file cannot be opened.
pub fn open(name: &OsStr) -> io::Result<File> {
    if name == "-" {
        standard_input()
    } else {
        File::open(name)
    }
}

/// Returns standard input as a separate file descriptor. The position is shared.
///
/// # Errors
/// If standard input is closed, or the process has too many open files.
pub fn standard_input() -> io::Result<File> {
    let fd = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 0)?;
    Ok(File::from(fd))
}
