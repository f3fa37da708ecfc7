//! Process settings for serving storage: priorities in the kernel, timers, and memory.

use std::sync::atomic::{AtomicBool, Ordering};

/// Marks the calling thread, and threads that it starts later, as a thread that writeback depends on. While such a
/// thread allocates memory, the kernel does not make it wait for the writes that it serves.
///
/// Without the privilege for it (`CAP_SYS_RESOURCE`) this does nothing, and service works. But if the process shares a
/// memory limit (a cgroup of version 1) with the processes that write to its storage, it can then hang: on Linux 6.18,
/// a page of its own waited for the writeback of theirs.
pub fn io_flusher() {
    if let Err(error) = crate::sys::set_io_flusher() {
        tracing::debug!(%error, "cannot set PR_SET_IO_FLUSHER; continuing without");
    }
}

/// Gives the process its own copy of all mounts. Must be called before other threads start.
///
/// # Errors
/// Without `CAP_SYS_ADMIN`.
pub fn own_mounts() -> std::io::Result<()> {
    crate::sys::unshare_mounts()
}

/// Makes a write that would grow a file past the limit on the length of files (`RLIMIT_FSIZE`) return a normal error.
/// By default the kernel would end the process, even if only its log file reached the limit.
pub fn outlive_file_limit() {
    if let Err(error) = crate::sys::ignore(libc::SIGXFSZ) {
        tracing::debug!(%error, "cannot ignore SIGXFSZ; continuing without");
    }
}

/// Makes the kernel wake the calling thread exactly at the time of its timers. By default the kernel may delay timers
/// by 50 µs, to wake less often; an emulated disk would be late by that time.
pub fn precise_timers() {
    if let Err(error) = crate::sys::set_timer_slack(1) {
        tracing::debug!(%error, "cannot set PR_SET_TIMERSLACK; continuing without");
    }
}

/// Locks the present and future memory of the process, each page from its first use. So the process never waits for a
/// page to be read back, which might take a write to the storage that it serves.
///
/// Lifts the limit on locked memory (`RLIMIT_MEMLOCK`), which does not apply with `CAP_IPC_LOCK`. If a limit remains,
/// nothing is locked, because the kernel would refuse any memory past the limit. This is logged, and service works, but
/// it can in theory stall when memory is short.
pub fn hold_memory() {
    match crate::sys::mlockall() {
        Ok(true) => HELD.store(true, Ordering::Relaxed),
        Ok(false) => {
            tracing::debug!("RLIMIT_MEMLOCK cannot be lifted; continuing without locked memory");
        }
        Err(error) => tracing::debug!(%error, "cannot lock memory; continuing without"),
    }
}

/// Makes the allocator return large blocks to the system as soon as they are freed. By default it keeps such blocks,
/// between others that are in use, once a block of that size has been freed.
pub fn give_memory_back() {
    if !crate::sys::set_mmap_threshold(LARGE_BYTES) {
        tracing::debug!("cannot set M_MMAP_THRESHOLD; freed memory may be kept");
    }
}

/// Minimum size in bytes of blocks that are returned immediately: the largest request buffers. Smaller blocks are soon
/// reused, and mapping each anew would cost more than the memory is worth.
const LARGE_BYTES: i32 = 1 << 20;

/// Returns free blocks that the allocator keeps to the system, if they exceed `most` bytes. After a burst the allocator
/// keeps all memory that was in use at the peak, except for large blocks ([`give_memory_back`]). The call takes
/// milliseconds, so it must be made while the process is idle.
pub fn trim_memory(most: usize) {
    let free = crate::sys::free_in_heaps();
    if free <= most {
        return;
    }
    // Locked memory is not returned. Memory in use is locked again immediately afterwards.
    let held = HELD.load(Ordering::Relaxed);
    if held {
        crate::sys::munlockall();
    }
    crate::sys::trim_heaps();
    if held {
        hold_memory();
    }
    tracing::debug!(free, "returned free memory to the kernel");
}

/// True once [`hold_memory`] has locked the process's memory.
static HELD: AtomicBool = AtomicBool::new(false);

/// Locks `bytes` in memory, so that using them never waits for a page to be read back. Returns true on success. The
/// limit (`RLIMIT_MEMLOCK`) may be too low, which is logged and is not an error.
///
/// The lock lasts until the memory is returned to the system.
pub fn lock_memory(bytes: &[u8]) -> bool {
    let locked = crate::sys::mlock(bytes);
    if let Err(error) = &locked {
        tracing::debug!(%error, bytes = bytes.len(), "cannot lock memory; continuing without");
    }
    locked.is_ok()
}
