//! Memory of the entries that alternate between a driver and this process, and the list of entries that came back.
#![allow(unsafe_code, reason = "a mapping of our own, which a driver fills")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ptr::NonNull;
use std::task::Waker;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Results of entries from the kernel that have not been read yet.
#[derive(Default)]
pub(super) struct FuseEntryResults {
    pub(super) back: VecDeque<(usize, i32)>,
    pub(super) waker: Option<Waker>,
}

/// The memory of all entries of a connection, and the entries that came back.
pub(crate) struct FuseEntryTable {
    pub(super) told: RefCell<FuseEntryResults>,
    /// Owns the memory of `places`.
    pub(super) _memory: PrivateMapping,
    /// Header and payload of each entry, in the form that the kernel reads.
    pub(super) places: Vec<[libc::iovec; 2]>,
}

impl FuseEntryTable {
    /// Records that an entry came back, and returns the waker of the waiting task.
    pub(super) fn put(&self, entry: usize, result: i32) -> Option<Waker> {
        let mut told = self.told.borrow_mut();
        told.back.push_back((entry, result));
        told.waker.take()
    }
}

/// A private mapping.
pub(super) struct PrivateMapping {
    pub(super) at: NonNull<u8>,
    len: usize,
}

impl PrivateMapping {
    pub(super) fn new(len: usize) -> io::Result<PrivateMapping> {
        let (anywhere, protection) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let at =
            unsafe { rustix::mm::mmap_anonymous(anywhere, len, protection, MapFlags::PRIVATE) };
        let at = at?;
        // SAFETY: the mapping from above; the advice does not change its content. Without support for the advice, the
        // memory stays in small pages, which the kernel looks up one by one.
        let _ = unsafe { rustix::mm::madvise(at, len, Advice::LinuxHugepage) };
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(PrivateMapping { at, len })
    }
}

impl Drop for PrivateMapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and nothing refers to it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}
