//! Signals. A separate file, and so a separate process: signals affect every thread.

mod common;

use common::run;
use forebay_linux::{SignalReader, StopSignal};
use rustix::process::{Signal as Number, getpid, kill_process};

/// The process must have a single thread when it calls this. The test harness has several, so this is a separate
/// program.
fn main() {
    run(|rt, ring| async move {
        let signals = SignalReader::new(&ring).unwrap();
        for (number, signal) in [
            (Number::TERM, StopSignal::Terminate),
            (Number::INT, StopSignal::Interrupt),
        ] {
            kill_process(getpid(), number).unwrap();
            assert_eq!(signals.next().await.unwrap(), signal);
            rt.yield_now().await;
        }
    });
    println!("SIGTERM and SIGINT are read instead of ending the process: ok");
}
