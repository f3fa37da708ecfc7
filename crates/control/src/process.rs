//! Processes by their ids.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

/// A handle on a process that waits for the end of the process, even if it is not our child.
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// Opens the process `pid`; `None` if it does not exist, or the system has no such handles.
    pub fn open(pid: u32) -> Option<ProcessHandle> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(ProcessHandle(fd))
    }

    /// Waits until the process has ended and has released its resources. Returns false after the time limit `patience`.
    pub fn wait(&self, patience: Duration) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let timeout = Timespec::try_from(patience).ok();
        matches!(rustix::event::poll(&mut fds, timeout.as_ref()), Ok(1..))
    }
}

/// Returns the state of a process, as the kernel abbreviates it; `None` if the process does not exist.
pub fn process_state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name before the state can contain any character.
    stat.rsplit(") ").next()?.chars().next()
}
