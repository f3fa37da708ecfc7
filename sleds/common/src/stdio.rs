//! Standard input and output, with the error of a closed file.
//!
//! The standard library treats a closed standard file as an empty input, and as an output that accepts everything. GNU
//! programs report the error `Bad file descriptor`.

use std::io::{self, Write};

use rustix::fs::OFlags;

/// Standard output without a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectOutput;

impl Write for DirectOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(rustix::stdio::stdout(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns true if a write to standard output must fail: the file was closed when the program started, and the program
/// replaced it with a file that is only open for reading.
pub fn output_is_closed() -> bool {
    let flags = rustix::fs::fcntl_getfl(rustix::stdio::stdout());
    flags.is_err() || flags.is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDONLY)
}

/// Returns true if a read of standard input must fail, like [`output_is_closed`].
pub fn input_is_closed() -> bool {
    let flags = rustix::fs::fcntl_getfl(rustix::stdio::stdin());
    flags.is_err() || flags.is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::WRONLY)
}
