//! SIGPIPE as other programs have it.
//!
//! The invariant that the unsafe code rests on: signals are set up once, before there is a second
//! thread, and only to the system's default.
#![allow(
    unsafe_code,
    reason = "the standard library cannot set a signal's action"
)]

/// Lets a write to a pipe that nobody reads end the process, as it ends `wc`, `grep` and `cat`. Rust
/// programs begin with the signal ignored.
pub(crate) fn end_quietly_when_nobody_reads() {
    // SAFETY: the default action runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
