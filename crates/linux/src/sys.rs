//! System calls for which no safe wrapper exists.
#![allow(
    unsafe_code,
    reason = "the only calls into libc; each is one call with arguments made right here"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::thread::CapabilitySet;

/// `prctl` option of Linux 5.6, which libc defines for Android only.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Locks a whole file for as long as it is open, against other opens of it: shared for reading, else exclusive.
/// `WouldBlock` if a conflicting lock is held.
///
/// Uses an open-file-description lock instead of `flock`, because other users of disk images (QEMU) take the former,
/// and because udev takes `flock`s on block devices at any time.
pub(crate) fn lock_file(fd: BorrowedFd<'_>, shared: bool) -> io::Result<()> {
    let lock = whole_file(shared);
    // SAFETY: the lock structure outlives the call.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }).map(drop)
}

/// A lock that another open file description holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ForeignLock {
    /// A read lock: readers share it.
    Shared,
    /// A write lock.
    Exclusive,
}

/// Returns the lock that makes [`lock_file`] fail now; `None` if it was released meanwhile.
pub(crate) fn foreign_lock(fd: BorrowedFd<'_>, shared: bool) -> io::Result<Option<ForeignLock>> {
    let mut lock = whole_file(shared);
    // SAFETY: the lock structure outlives the call, which may change it.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) })?;
    Ok(match lock.l_type.into() {
        libc::F_UNLCK => None,
        libc::F_RDLCK => Some(ForeignLock::Shared),
        _ => Some(ForeignLock::Exclusive),
    })
}

fn whole_file(shared: bool) -> libc::flock {
    // SAFETY: a lock structure is plain data for which zeroes are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = if shared { libc::F_RDLCK } else { libc::F_WRLCK } as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: a signal set is plain data; sigemptyset initialises it, sigaddset adds to it and refuses invalid signal
    // numbers.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

/// The signals that a thread blocked before [`hold_back`].
pub(crate) struct BlockedSignals(libc::sigset_t);

/// Blocks `signals` in this thread and in threads that it starts later.
pub(crate) fn hold_back(signals: &[i32]) -> io::Result<BlockedSignals> {
    let (set, mut before) = (set_of(signals), set_of(&[]));
    // SAFETY: both sets outlive the call.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) } {
        0 => Ok(BlockedSignals(before)),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        let before = &raw const self.0;
        // SAFETY: the set outlives the call. It cannot fail with a valid first argument.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
    }
}

/// Ignores a signal, in this process and in programs that it starts.
pub(crate) fn ignore(signal: i32) -> io::Result<()> {
    // SAFETY: no handler is given, so no code of ours is called.
    match unsafe { libc::signal(signal, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Creates a descriptor from which `signals` are read.
pub(crate) fn signal_fd(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = set_of(signals);
    // SAFETY: the set outlives the call.
    let fd = check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) })?;
    // SAFETY: the call created the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Bytes of one report read from a [`signal_fd`]; it begins with the signal's number.
pub(crate) const SIGNAL_REPORT_BYTES: usize = size_of::<libc::signalfd_siginfo>();

/// Calls `prctl(PR_SET_IO_FLUSHER, 1)`.
pub(crate) fn set_io_flusher() -> io::Result<()> {
    let (yes, zero): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: takes numbers only; the unused arguments must be zero.
    check(unsafe { libc::prctl(PR_SET_IO_FLUSHER, yes, zero, zero, zero) }).map(drop)
}

/// Calls `unshare(CLONE_NEWNS)`.
pub(crate) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: takes a number only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) }).map(drop)
}

/// Calls `prctl(PR_SET_TIMERSLACK)`: the number of nanoseconds by which the kernel may delay the calling thread's
/// timers to handle several at once. (0 would mean the default, 50 µs.)
pub(crate) fn set_timer_slack(ns: libc::c_ulong) -> io::Result<()> {
    let zero: libc::c_ulong = 0;
    // SAFETY: takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns, zero, zero, zero) }).map(drop)
}

/// Calls `mlockall(2)` for present and future pages, each from its first use, if no limit applies; returns `false` if a
/// limit applies.
pub(crate) fn mlockall() -> io::Result<bool> {
    let unlimited = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit outlives the call. The call fails if a hard limit is set and the privilege to raise it
    // (`CAP_SYS_RESOURCE`) is missing.
    let lifted = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const unlimited) } == 0;
    let exempt = || {
        let mine = rustix::thread::capabilities(None);
        mine.is_ok_and(|mine| mine.effective.contains(CapabilitySet::IPC_LOCK))
    };
    if !lifted && !exempt() {
        return Ok(false);
    }
    // SAFETY: takes a number only; locking does not change memory.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) })?;
    Ok(true)
}

/// Calls `mallopt(M_MMAP_THRESHOLD)`: the size in bytes from which a block gets its own mapping. Returns true on
/// success.
pub(crate) fn set_mmap_threshold(bytes: libc::c_int) -> bool {
    // SAFETY: takes numbers only.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, bytes) == 1 }
}

/// Calls `munlockall(2)`.
pub(crate) fn munlockall() {
    // SAFETY: takes no arguments; locking does not change memory. It cannot fail.
    unsafe { libc::munlockall() };
}

/// Calls `mallinfo2(3)`, and returns the free bytes in the allocator's heaps.
pub(crate) fn free_in_heaps() -> usize {
    // SAFETY: takes no arguments, and reads the allocator's own statistics.
    unsafe { libc::mallinfo2() }.fordblks
}

/// Calls `malloc_trim(3)`, which returns whole free pages in the heaps to the system.
pub(crate) fn trim_heaps() {
    // SAFETY: takes a number only; memory in use is not touched.
    unsafe { libc::malloc_trim(0) };
}

/// Calls `mlock(2)` on the memory of `bytes`.
pub(crate) fn mlock(bytes: &[u8]) -> io::Result<()> {
    // An empty slice has an arbitrary address, and the kernel rounds to whole pages.
    if bytes.is_empty() {
        return Ok(());
    }
    // SAFETY: the range is a living slice; locking does not change its content. The lock ends when the memory is
    // unmapped.
    check(unsafe { libc::mlock(bytes.as_ptr().cast(), bytes.len()) }).map(drop)
}
