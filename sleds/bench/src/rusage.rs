//! What a child process took, which the system tells to whoever collects its end.
//!
//! The invariant that the unsafe code rests on: `wait4` gets pointers to values that live through
//! the call, and is asked for one child only, which nobody else waits for.
#![allow(
    unsafe_code,
    reason = "neither the standard library nor rustix has wait4"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};

/// Waits for the end of `child`, which nobody has waited for; and its processor time in seconds, its
/// own and the kernel's for it, of all its threads.
///
/// # Errors
/// If there is no such child.
pub(super) fn wait(child: Child) -> io::Result<(ExitStatus, f64)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        let pid = child.id() as libc::pid_t;
        // SAFETY: both pointers are valid for the call; of an rusage any bits are a value, and it
        // begins as zeroes.
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
