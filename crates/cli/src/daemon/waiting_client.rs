//! Clients that wait for long answers on the control socket.

use super::Daemon;

/// A client that waits for a long answer. The process does not exit before the answer is sent.
pub(super) struct WaitingClient<'a>(&'a Daemon);

impl WaitingClient<'_> {
    /// Counts the client until the result is dropped.
    pub(super) fn new(daemon: &Daemon) -> WaitingClient<'_> {
        daemon.waited_for.set(daemon.waited_for.get() + 1);
        WaitingClient(daemon)
    }
}

impl Drop for WaitingClient<'_> {
    fn drop(&mut self) {
        self.0.waited_for.set(self.0.waited_for.get() - 1);
        self.0.changed.notify_all();
    }
}
