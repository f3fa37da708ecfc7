//! Handles of open files: numbers that no two have at a time, and that say what the file was opened for, since an ioctl does
//! not.

use std::cell::Cell;

const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const BITS: u32 = 2;

/// Gives handles.
#[derive(Default)]
pub(crate) struct Handles(Cell<u64>);

impl Handles {
    /// One for a file that is opened with these flags.
    pub(crate) fn next(&self, flags: u32) -> u64 {
        let number = self.0.get() + 1;
        self.0.set(number);
        let bits = match flags.cast_signed() & libc::O_ACCMODE {
            libc::O_RDONLY => READABLE,
            libc::O_WRONLY => WRITABLE,
            _ => READABLE | WRITABLE,
        };
        number << BITS | bits
    }
}

/// Whether the file is open for writing.
pub(crate) fn is_writable(handle: u64) -> bool {
    handle & WRITABLE != 0
}

/// Whether it is open for reading and writing.
pub(crate) fn is_both(handle: u64) -> bool {
    handle & (READABLE | WRITABLE) == READABLE | WRITABLE
}
