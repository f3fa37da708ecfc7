//! Requests to stop, as events on the ring.

use std::io;
use std::rc::Rc;

use forebay_device::BufMut;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::{IoRing, SharedFd, sys};

/// A signal that asks the program to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopSignal {
    /// `SIGTERM`, from a service manager.
    Terminate,
    /// `SIGINT`, from the keyboard.
    Interrupt,
}

const SIGNALS: [i32; 2] = [libc::SIGTERM, libc::SIGINT];

/// `SIGTERM` and `SIGINT`, read from the ring instead of ending the process. When this is dropped, they end the process
/// again.
pub struct SignalReader {
    ring: Rc<IoRing>,
    fd: SharedFd,
    _held_back: sys::BlockedSignals,
}

impl SignalReader {
    /// Takes over the signals. Must be called before other threads are started: the signals would still end a thread
    /// started earlier, and the process with it.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new(ring: &Rc<IoRing>) -> io::Result<SignalReader> {
        let held_back = sys::hold_back(&SIGNALS)?;
        Ok(SignalReader {
            ring: Rc::clone(ring),
            fd: Rc::new(sys::signal_fd(&SIGNALS)?),
            _held_back: held_back,
        })
    }

    /// Returns true if a signal is pending. Intended for callers that wait for other events outside the ring.
    pub fn is_pending(&self) -> bool {
        let mut fds = [PollFd::new(&*self.fd, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        matches!(rustix::event::poll(&mut fds, Some(&at_once)), Ok(1..))
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    /// If reading fails, which does not happen on a healthy system.
    pub async fn next(&self) -> io::Result<StopSignal> {
        let buf = BufMut::zeroed(sys::SIGNAL_REPORT_BYTES);
        let (report, n) = self.ring.read_fd(&self.fd, buf).await?;
        let number = report.first_chunk::<4>().filter(|_| n >= 4);
        match number.map(|bytes| u32::from_ne_bytes(*bytes) as i32) {
            Some(libc::SIGINT) => Ok(StopSignal::Interrupt),
            _ => Ok(StopSignal::Terminate),
        }
    }
}
