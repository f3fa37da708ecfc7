//! Work that a signal stops.
//!
//! The work runs on a thread of its own, so that the main thread can receive signals. A signal sets [`UserStop`]; the
//! work then ends through its ordinary error path, which cleans up.

use std::io::pipe;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_linux::{FdPoller, IoRing, SignalReader, on_ring};
use futures_util::future::{Either, select};

/// Flag that is set when the user wants to stop.
#[derive(Clone, Default)]
pub struct UserStop(Arc<AtomicBool>);

impl UserStop {
    /// Returns an error if the flag is set.
    ///
    /// # Errors
    /// If the flag is set.
    pub fn check(&self) -> CommandResult {
        if self.is_set() {
            return Err(CommandFailure::general(
                "stopped by a signal; everything is cleaned up",
            ));
        }
        Ok(())
    }

    /// Returns true if the flag is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs `work` on a thread of its own, which a signal tells to stop.
///
/// # Errors
/// If the work fails, or the signals cannot be read.
pub fn stoppable<T: Send + 'static>(
    work: impl FnOnce(UserStop) -> CommandResult<T> + Send + 'static,
) -> CommandResult<T> {
    on_ring(|_, ring| async move { until_done_or_signal(&ring, work).await })
        .map_err(CommandFailure::io)?
}

async fn until_done_or_signal<T: Send + 'static>(
    ring: &Rc<IoRing>,
    work: impl FnOnce(UserStop) -> CommandResult<T> + Send + 'static,
) -> CommandResult<T> {
    // Signals are blocked before the worker starts, since they must not end the worker.
    let signals = SignalReader::new(ring).map_err(CommandFailure::io)?;
    let (reader, writer) = pipe().map_err(CommandFailure::io)?;
    let stop = UserStop::default();
    let theirs = stop.clone();
    let worker = std::thread::spawn(move || {
        let result = work(theirs);
        // Closing the pipe wakes the waiting side.
        drop(writer);
        result
    });
    let poller = FdPoller::new(ring, Rc::new(reader.into()));
    let mut ended = pin!(poller.readable());
    loop {
        match select(ended.as_mut(), pin!(signals.next())).await {
            Either::Left(_) => break,
            Either::Right(_) => {
                eprintln!("forebay: stopping and cleaning up");
                stop.0.store(true, Ordering::Relaxed);
            }
        }
    }
    worker
        .join()
        .unwrap_or_else(|_| Err(CommandFailure::general("the work panicked; see above")))
}
