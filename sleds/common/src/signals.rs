//! SIGPIPE as other programs have it, and an orderly end of long work.
//!
//! The invariants that the unsafe code rests on: signals are set up before there is a second
//! thread; SIGPIPE only to the system's default; and the others are waited for, not handled, so no
//! code of ours runs in a handler.
#![allow(
    unsafe_code,
    reason = "the standard library can neither set a signal's action nor wait for one"
)]

use std::io;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard};

use rustix::process::{Pid, Signal, kill_process};

/// Lets a write to a pipe that nobody reads end the process, as it ends `wc`, `grep` and `cat`. Rust
/// programs begin with the signal ignored.
pub fn end_quietly_when_nobody_reads() {
    // SAFETY: the default action runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// What happens when this process is told to end.
struct Ending {
    /// A program that is told, too.
    child: Option<Pid>,
    told: bool,
}

static ENDING: Mutex<Ending> = Mutex::new(Ending {
    child: None,
    told: false,
});

fn ending() -> MutexGuard<'static, Ending> {
    ENDING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// From here on, SIGINT, SIGTERM and SIGHUP end the process only where it asks [`told_to_end`], so
/// that it can take away what it made. The programs it starts have them as ever.
///
/// # Errors
/// If there is no thread to be had.
pub fn end_in_order() -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is made before it is used; blocking signals runs no code.
    let set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        let set = set.assume_init();
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    };
    std::thread::Builder::new().spawn(move || {
        loop {
            let mut signal = 0;
            // SAFETY: both outlive the call, which only waits.
            if unsafe { libc::sigwait(&raw const set, &raw mut signal) } != 0 {
                return;
            }
            let mut ending = ending();
            ending.told = true;
            if let Some(child) = ending.child {
                // It may have ended by itself; its number is not given away before it is collected.
                let _ = kill_process(child, Signal::TERM);
            }
        }
    })?;
    Ok(())
}

/// While it lives, a child is told to end when this process is.
pub struct PassOn;

impl Drop for PassOn {
    fn drop(&mut self) {
        ending().child = None;
    }
}

/// Has a child, which is not collected before the result is dropped, told to end with this process.
pub fn pass_on(child: Pid) -> PassOn {
    let mut ending = ending();
    ending.child = Some(child);
    if ending.told {
        let _ = kill_process(child, Signal::TERM);
    }
    PassOn
}

/// # Errors
/// If this process was told to end (after [`end_in_order`]).
pub fn told_to_end() -> io::Result<()> {
    match ending().told {
        true => Err(io::Error::new(
            io::ErrorKind::Interrupted,
            "told to end by a signal",
        )),
        false => Ok(()),
    }
}
