//! Resource use of a child process, which the kernel returns with the exit status.
//!
//! Invariant of the unsafe code: `wait4` gets pointers to values that outlive the call, and waits for a single child,
//! for which no other thread waits.
#![allow(
    unsafe_code,
    reason = "neither the standard library nor rustix has wait4"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};

/// Waits for the end of `child`, which must not have been waited for. Returns the exit status and the processor time of
/// all its threads in seconds, user and kernel.
///
/// # Errors
/// If the child does not exist.
pub(super) fn wait(child: Child) -> io::Result<(ExitStatus, f64)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        let pid = child.id() as libc::pid_t;
        // SAFETY: both pointers are valid for the call; any bits are a valid `rusage`, which is initialized with
        // zeroes.
        let (ended, usage) = unsafe {
            let ended = libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr());
            (ended, usage.assume_init_ref())
        };
        if ended == pid {
            let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
            let cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
            return Ok((ExitStatus::from_raw(status), cpu));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
