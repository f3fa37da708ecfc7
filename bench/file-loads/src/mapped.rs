//! A file as memory.
//!
//! Invariant: the mapping is of a whole file that nobody cuts off or writes otherwise while it is there: whoever maps one made it, in a
//! scratch directory.
#![allow(unsafe_code, reason = "mapping files, and looking at them as numbers")]

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// Numbers that can be any bits.
pub(crate) trait AnyBits: Copy {}

impl AnyBits for u64 {}
impl AnyBits for f32 {}

/// A file, shared with what else the kernel knows of it.
pub(crate) struct MappedFile {
    at: NonNull<u8>,
    len: usize,
}

impl MappedFile {
    /// All of a file that can be read and written.
    pub(crate) fn whole(file: &File) -> io::Result<MappedFile> {
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where, so nothing else is there; `len` is that of the file.
        let at = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, 0)? };
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(MappedFile { at, len })
    }

    /// As numbers; what does not fill one at the end is left out.
    pub(crate) fn numbers<N: AnyBits>(&mut self) -> &mut [N] {
        let count = self.len / size_of::<N>();
        // SAFETY: a mapping begins at a page, so it is aligned; it has `len` bytes, of which any is a part of a number;
        // and `self` is borrowed as long as they are.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr().cast(), count) }
    }

    /// Has the file be as the memory is, durably.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // SAFETY: it is mapped, all of it.
        unsafe { msync(self.at.as_ptr().cast(), self.len, MsyncFlags::SYNC)? };
        Ok(())
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: it is mapped, and nobody borrows it any more.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
    }
}
