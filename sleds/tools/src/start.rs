//! The fast start of the process.
//!
//! Before `main`, the standard library prepares for stack overflows and reads the memory map of the process. That takes
//! an eighth of the time of `wc` on a small file. This file therefore defines C's `main` for the GNU C library, which
//! passes the command line to Rust in any case, and does the useful parts of the standard start. SIGPIPE keeps its
//! default action and ends the process, as in other programs.
//!
//! The invariant of the unsafe code: no other function is called `main`.
#![allow(
    unsafe_code,
    reason = "the standard library cannot leave its start out"
)]

use std::ffi::{c_char, c_int};
use std::panic::catch_unwind;
use std::process::{ExitCode, exit};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Exit code of a Rust program after a panic.
const PANICKED: c_int = 101;

// SAFETY: no other function has this name, because the crate is `no_main`.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _words: *const *const c_char) -> c_int {
    fill_standard_files();
    let code = catch_unwind(crate::run).map_or(PANICKED, number);
    // Flushes standard output.
    exit(code)
}

/// Opens `/dev/null` in place of closed standard files, so that no later file gets one of their numbers. The file is
/// open in the wrong direction, so its use fails with the error of a closed file.
fn fill_standard_files() {
    let files = [
        (rustix::stdio::stdin(), OFlags::WRONLY),
        (rustix::stdio::stdout(), OFlags::RDONLY),
        (rustix::stdio::stderr(), OFlags::RDONLY),
    ];
    for (file, wrong) in files {
        if rustix::io::fcntl_getfd(file) == Err(Errno::BADF) {
            // The closed file has the lowest free number, so the open returns this number.
            let null = rustix::fs::open("/dev/null", wrong, Mode::empty());
            std::mem::forget(null);
        }
    }
}

/// Returns the number in `code`; `ExitCode` has no accessor.
fn number(code: ExitCode) -> c_int {
    let same = |n: &u8| ExitCode::from(*n) == code;
    (0..=u8::MAX).find(same).map_or(PANICKED, c_int::from)
}
