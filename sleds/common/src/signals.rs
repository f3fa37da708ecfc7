//! The default action of SIGPIPE, and an orderly end of long work.
//!
//! Invariants of the unsafe code: signals are set up before a second thread is started. SIGPIPE is only set to the
//! system's default action. The other signals are waited for, not handled, so no code of this program runs in a
//! handler.
#![allow(
    unsafe_code,
    reason = "the standard library can neither set a signal's action nor wait for one"
)]

use std::io;
use std::mem::MaybeUninit;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

/// Restores the default action of SIGPIPE: a write to a pipe without a reader ends the process, as for `wc`, `grep` and
/// `cat`. Rust programs start with SIGPIPE ignored.
pub fn end_quietly_when_nobody_reads() {
    // SAFETY: the default action runs no code of this program.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// State for the end of this process by a signal.
struct SignalState {
    /// A child that receives the signal as well.
    child: Option<Pid>,
    told: bool,
}

static ENDING: Mutex<SignalState> = Mutex::new(SignalState {
    child: None,
    told: false,
});

/// Signals that the process was told to end.
static TOLD: Condvar = Condvar::new();

fn ending() -> MutexGuard<'static, SignalState> {
    ENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From this call on, SIGINT, SIGTERM and SIGHUP end the process only at a call of [`told_to_end`], so that the process
/// can remove its files. Started programs receive the signals as usual.
///
/// # Errors
/// If the thread cannot be started.
pub fn end_in_order() -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialized before its use; blocking signals runs no code.
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
            // SAFETY: both values outlive the call, which only waits.
            if unsafe { libc::sigwait(&raw const set, &raw mut signal) } != 0 {
                return;
            }
            let mut ending = ending();
            ending.told = true;
            TOLD.notify_all();
            if let Some(child) = ending.child {
                // The child may have ended by itself; its number is not reused before it is collected.
                let _ = kill_process(child, Signal::TERM);
            }
        }
    })?;
    Ok(())
}

/// Passes a request to end this process on to a child until dropped.
pub struct SignalForwarder;

impl Drop for SignalForwarder {
    fn drop(&mut self) {
        ending().child = None;
    }
}

/// Registers a child, which receives SIGTERM when this process is told to end. The child must not be collected before
/// the result is dropped.
pub fn pass_on(child: Pid) -> SignalForwarder {
    let mut ending = ending();
    ending.child = Some(child);
    if ending.told {
        let _ = kill_process(child, Signal::TERM);
    }
    SignalForwarder
}

/// # Errors
///
/// If this process was told to end (after [`end_in_order`]).
pub fn told_to_end() -> io::Result<()> {
    if ending().told {
        Err(io::Error::new(
            io::ErrorKind::Interrupted,
            "told to end by a signal",
        ))
    } else {
        Ok(())
    }
}

/// Waits until this process is told to end (after [`end_in_order`]).
pub fn wait_for_end() {
    let waited = TOLD.wait_while(ending(), |ending| !ending.told);
    drop(waited.unwrap_or_else(PoisonError::into_inner));
}
