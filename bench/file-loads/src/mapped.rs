//! A memory-mapped file.
//!
//! Invariant: the mapping covers a whole file. During the mapping, no other code truncates the file or writes to it:
//! the code that maps a file also created the file, in a scratch directory.
#![allow(unsafe_code, reason = "mapping files, and looking at them as numbers")]

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// Number types for which all bit patterns are valid.
pub(crate) trait AnyBits: Copy {}

impl AnyBits for u64 {}
impl AnyBits for f32 {}

/// A shared mapping of a file.
pub(crate) struct MappedFile {
    at: NonNull<u8>,
    len: usize,
}

impl MappedFile {
    /// Maps a whole file for reads and writes.
    pub(crate) fn whole(file: &File) -> io::Result<MappedFile> {
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so the mapping replaces no other; `len` is the length of the file.
        let at = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, 0)? };
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(MappedFile { at, len })
    }

    /// Returns the file as numbers, without an incomplete number at the end.
    pub(crate) fn numbers<N: AnyBits>(&mut self) -> &mut [N] {
        let count = self.len / size_of::<N>();
        // SAFETY: a mapping begins at a page, so it is aligned. The `len` bytes are mapped, and all bit patterns are
        // valid numbers. `self` is borrowed as long as the slice.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr().cast(), count) }
    }

    /// Writes the mapping to the file durably.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // SAFETY: the whole range is mapped.
        unsafe { msync(self.at.as_ptr().cast(), self.len, MsyncFlags::SYNC)? };
        Ok(())
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: the range is mapped, and no borrow of it is left.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
    }
}
