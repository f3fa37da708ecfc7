//! What a process that serves storage tells the kernel about itself.

use std::sync::atomic::{AtomicBool, Ordering};

/// Marks the calling thread, and those it starts later, as one that writeback depends on: the
/// kernel then does not make it wait, while it allocates memory, for the very writes it serves.
///
/// Without the privilege for it (`CAP_SYS_RESOURCE`) this does nothing, and service works. But under
/// one memory limit (a cgroup of version 1) with those who write to what it serves it then can stall
/// for good: seen on Linux 6.18, where a page of its own waited for the writing back of theirs.
pub fn io_flusher() {
    if let Err(error) = crate::sys::set_io_flusher() {
        tracing::debug!(%error, "cannot set PR_SET_IO_FLUSHER; carrying on without");
    }
}

/// Has a file that would grow past the limit on the length of files (`RLIMIT_FSIZE`) be an error like any other. By
/// default the kernel ends the process, for a line in its log.
pub fn outlive_file_limit() {
    if let Err(error) = crate::sys::ignore(libc::SIGXFSZ) {
        tracing::debug!(%error, "cannot ignore SIGXFSZ; carrying on without");
    }
}

/// Has the kernel wake the calling thread at its timers' very times. By default it may put them off by
/// 50 µs, to wake less often; an emulated disk would be late by that.
pub fn precise_timers() {
    if let Err(error) = crate::sys::set_timer_slack(1) {
        tracing::debug!(%error, "cannot set PR_SET_TIMERSLACK; carrying on without");
    }
}

/// Keeps the process in memory, what it has and what it will have, from when it is first used: it
/// then never waits for a page to be read back, which might take a write to what it serves.
///
/// Lifts the limit on that (`RLIMIT_MEMLOCK`), which does not hold for who has `CAP_IPC_LOCK`. Where a
/// limit stays, nothing is locked: past it, the kernel would refuse any more memory at all. That is noted, and service works; it can in theory
/// stall when memory is short.
pub fn hold_memory() {
    match crate::sys::mlockall() {
        Ok(true) => HELD.store(true, Ordering::Relaxed),
        Ok(false) => {
            tracing::debug!("RLIMIT_MEMLOCK cannot be lifted; carrying on without locked memory")
        }
        Err(error) => tracing::debug!(%error, "cannot lock memory; carrying on without"),
    }
}

/// Has the allocator give large blocks back to the system as soon as they are free. By itself it
/// keeps them once one has been freed, between others that are in use.
pub fn give_memory_back() {
    if !crate::sys::set_mmap_threshold(LARGE_BYTES) {
        tracing::debug!("cannot set M_MMAP_THRESHOLD; freed memory may be kept");
    }
}

/// Blocks of this size and more, in bytes, are not kept: the largest buffers of requests. Smaller
/// ones are used again soon, and mapping each anew would cost more than they hold.
const LARGE_BYTES: i32 = 1 << 20;

/// Gives back to the system what the allocator keeps of blocks that are free, if that is more than
/// `most` bytes: after a burst it is all that was in use at its height, but for large blocks
/// ([`give_memory_back`]). Takes milliseconds, so it is for moments at which nothing is to be done.
pub fn trim_memory(most: usize) {
    let free = crate::sys::free_in_heaps();
    if free <= most {
        return;
    }
    // Locked memory is not given back. What is in use is locked again at once.
    let held = HELD.load(Ordering::Relaxed);
    if held {
        crate::sys::munlockall();
    }
    crate::sys::trim_heaps();
    if held {
        hold_memory();
    }
    tracing::debug!(free, "gave free memory back");
}

/// True once [`hold_memory`] has locked the process's memory.
static HELD: AtomicBool = AtomicBool::new(false);

/// Keeps `bytes` in memory, so that using them never waits for a page to be read back. Returns
/// whether it worked: the limit (`RLIMIT_MEMLOCK`) may be too low, which is noted and no failure.
///
/// The lock lasts until the memory is given back to the system.
pub fn lock_memory(bytes: &[u8]) -> bool {
    let locked = crate::sys::mlock(bytes);
    if let Err(error) = &locked {
        tracing::debug!(%error, bytes = bytes.len(), "cannot lock memory; carrying on without");
    }
    locked.is_ok()
}
