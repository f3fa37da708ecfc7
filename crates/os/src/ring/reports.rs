//! The memory of entries that go back and forth between a driver and us, and which of them came back.
#![allow(unsafe_code, reason = "a mapping of our own, which a driver fills")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ptr::NonNull;
use std::task::Waker;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// What the kernel has done with entries, until somebody looks.
#[derive(Default)]
pub(super) struct Told {
    pub(super) back: VecDeque<(usize, i32)>,
    pub(super) waker: Option<Waker>,
}

/// The memory of all entries of a connection, and what came back.
pub(crate) struct Reports {
    pub(super) told: RefCell<Told>,
    /// Where the places are.
    pub(super) _memory: Memory,
    /// What each entry's header and payload are; the kernel is told by this.
    pub(super) places: Vec<[libc::iovec; 2]>,
}

impl Reports {
    /// Notes that an entry is ours again, and returns whom to wake.
    pub(super) fn put(&self, entry: usize, result: i32) -> Option<Waker> {
        let mut told = self.told.borrow_mut();
        told.back.push_back((entry, result));
        told.waker.take()
    }
}

/// A mapping of our own.
pub(super) struct Memory {
    pub(super) at: NonNull<u8>,
    len: usize,
}

impl Memory {
    pub(super) fn new(len: usize) -> io::Result<Memory> {
        let (anywhere, protection) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let at =
            unsafe { rustix::mm::mmap_anonymous(anywhere, len, protection, MapFlags::PRIVATE) };
        let at = at?;
        // SAFETY: that very mapping; what is advised does not change what it holds. Where there is no such advice, it stays in
        // small pages, which the kernel looks up one by one.
        let _ = unsafe { rustix::mm::madvise(at, len, Advice::LinuxHugepage) };
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(Memory { at, len })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and nothing refers to it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}
