//! Files whose pages stay in memory.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;

use crate::sys::{self, MappedRange};

/// A file whose pages can be locked in memory. They stay locked until this value is dropped. The file may be closed
/// before. Data that is appended to the file later is not locked.
pub struct PinnedFile {
    mapping: MappedRange,
    length: u64,
}

impl PinnedFile {
    /// Maps the first `length` bytes of a file, which must not be 0. Locks nothing yet.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub fn new(file: &File, length: u64) -> io::Result<PinnedFile> {
        let length = length.next_multiple_of(sys::page_size());
        let mapping = MappedRange::new(file.as_fd(), 0, length)?;
        Ok(PinnedFile { mapping, length })
    }

    /// Locks the pages from byte `from` (a multiple of the page size) up to byte `to`. Reads missing pages.
    ///
    /// # Errors
    /// `OutOfMemory` or `PermissionDenied` if the process may not lock this amount (`RLIMIT_MEMLOCK`), or memory is
    /// short. `WouldBlock` if a page cannot be read, because of a fault of the device or because the file is shorter.
    pub fn lock(&self, from: u64, to: u64) -> io::Result<()> {
        let end = to.next_multiple_of(sys::page_size()).min(self.length);
        let length = end.saturating_sub(from);
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.mapping.lock(from, length)
    }
}
