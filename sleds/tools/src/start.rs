//! The beginning of the process, with little ado.
//!
//! Before `main`, the standard library prepares for stack overflows, which takes a look at all of the
//! process's memory: an eighth of the time that `wc` takes for a small file. So with the GNU C library,
//! where command lines reach Rust all the same, this is C's `main`, and does what else is of use.
//! SIGPIPE is left to end the process, as other programs have it.
//!
//! The invariant that the unsafe code rests on: nothing else is called `main`.
#![allow(
    unsafe_code,
    reason = "the standard library cannot leave its start out"
)]

use std::ffi::{c_char, c_int};
use std::panic::catch_unwind;
use std::process::{ExitCode, exit};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// What a Rust program ends with after a panic.
const PANICKED: c_int = 101;

// SAFETY: there is no other function of this name, as the crate says `no_main`.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _words: *const *const c_char) -> c_int {
    fill_standard_files();
    let code = catch_unwind(crate::run).map_or(PANICKED, number);
    // Flushes standard output.
    exit(code)
}

/// Puts `/dev/null` where standard input, output or error is closed, so that no file of ours gets
/// its number.
fn fill_standard_files() {
    let files = [
        rustix::stdio::stdin(),
        rustix::stdio::stdout(),
        rustix::stdio::stderr(),
    ];
    for file in files {
        if rustix::io::fcntl_getfd(file) == Err(Errno::BADF) {
            // The lowest number that is free is this one's.
            let null = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty());
            std::mem::forget(null);
        }
    }
}

/// The number in `code`, which does not give it away.
fn number(code: ExitCode) -> c_int {
    let same = |n: &u8| ExitCode::from(*n) == code;
    (0..=u8::MAX).find(same).map_or(PANICKED, c_int::from)
}
