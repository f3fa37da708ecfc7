//! Signals. A file, and so a process, of its own: they concern every thread there is.

mod common;

use common::run;
use forebay_os::{Signal, Signals};
use rustix::process::{Signal as Number, getpid, kill_process};

/// In a process of one thread as the program is when it calls this; the test harness is not, so
/// this is a program of its own.
fn main() {
    run(|rt, ring| async move {
        let signals = Signals::new(&ring).unwrap();
        for (number, signal) in [
            (Number::TERM, Signal::Terminate),
            (Number::INT, Signal::Interrupt),
        ] {
            kill_process(getpid(), number).unwrap();
            assert_eq!(signals.next().await.unwrap(), signal);
            rt.yield_now().await;
        }
    });
    println!("SIGTERM and SIGINT are read instead of ending the process: ok");
}
