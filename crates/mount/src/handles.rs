//! Handles of open files: numbers that are unique among open files and that encode the open mode. Only reads and writes
//! contain the mode in the request.

use std::cell::Cell;

use crate::sync_mode::SyncMode;

const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const DATA_SYNC: u64 = 4;
const FILE_SYNC: u64 = 8;
const DIRECT: u64 = 16;
const APPENDS: u64 = 32;
const BITS: u32 = 6;

/// Generator of handles.
#[derive(Default)]
pub(crate) struct HandleGenerator(Cell<u64>);

impl HandleGenerator {
    /// Returns a new handle for a file that is opened with these flags.
    pub(crate) fn next(&self, flags: u32) -> u64 {
        let number = self.0.get() + 1;
        self.0.set(number);
        let bits = match flags.cast_signed() & libc::O_ACCMODE {
            libc::O_RDONLY => READABLE,
            libc::O_WRONLY => WRITABLE,
            _ => READABLE | WRITABLE,
        };
        let sync = match SyncMode::of_flags(flags) {
            SyncMode::Nothing => 0,
            SyncMode::Data => DATA_SYNC,
            SyncMode::File => FILE_SYNC,
        };
        let direct = match flags.cast_signed() & libc::O_DIRECT {
            0 => 0,
            _ => DIRECT,
        };
        let appends = match flags.cast_signed() & libc::O_APPEND {
            0 => 0,
            _ => APPENDS,
        };
        number << BITS | bits | sync | direct | appends
    }
}

/// Returns true if the file is open for writing.
pub(crate) fn is_writable(handle: u64) -> bool {
    handle & WRITABLE != 0
}

/// Returns true if the file was opened to append, even if its flags changed later.
pub(crate) fn appends(handle: u64) -> bool {
    handle & APPENDS != 0
}

/// Returns true if the file is open for reading and writing.
pub(crate) fn is_both(handle: u64) -> bool {
    handle & (READABLE | WRITABLE) == READABLE | WRITABLE
}

/// Returns true if the file was opened for direct reads and writes, even if its flags changed later.
pub(crate) fn is_direct(handle: u64) -> bool {
    handle & DIRECT != 0
}

/// Returns the durability that a change through this open file has when it is answered.
pub(crate) fn sync_mode(handle: u64) -> SyncMode {
    match (handle & FILE_SYNC != 0, handle & DATA_SYNC != 0) {
        (true, _) => SyncMode::File,
        (false, true) => SyncMode::Data,
        (false, false) => SyncMode::Nothing,
    }
}
