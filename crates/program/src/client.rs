//! The client of a control socket.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use forebay_control::{ControlRequest, REPLY_BYTES_MAX, RemainingWork};
use forebay_volume::{ServedAs, VolumeName};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags};

use crate::dirs::{ProgramDirs, state_of};
use crate::failure::{CommandFailure, CommandResult};
use crate::report::{DaemonReply, StatusReport};

/// Time for a daemon to answer a request; it sends progress more often.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to the daemon of an attached volume.
pub struct ControlClient {
    name: VolumeName,
    stream: BufReader<UnixStream>,
    patience: Duration,
}

/// The reason why no connection was made.
pub enum ConnectError {
    /// The volume is not attached.
    NotAttached,
    /// The daemon was killed: its socket exists, but no process listens.
    Dead,
    /// Any other failure.
    Failed(CommandFailure),
}

impl ControlClient {
    /// Connects to the daemon of `name`.
    pub fn try_connect(
        dirs: &ProgramDirs,
        name: &VolumeName,
    ) -> Result<ControlClient, ConnectError> {
        ControlClient::try_within(dirs, name, PATIENCE)
    }

    /// Connects to the daemon of `name`, with `patience` as the timeout for each of its answers.
    pub fn try_within(
        dirs: &ProgramDirs,
        name: &VolumeName,
        patience: Duration,
    ) -> Result<ControlClient, ConnectError> {
        match ControlClient::try_at(&dirs.control_socket(name), name, patience) {
            // A refused attach may since have removed the socket of the previous daemon.
            Err(ConnectError::NotAttached) if dirs.ended_abruptly(name) => Err(ConnectError::Dead),
            connected => connected,
        }
    }

    fn try_at(
        path: &Path,
        name: &VolumeName,
        patience: Duration,
    ) -> Result<ControlClient, ConnectError> {
        let stream = connect(path, patience).map_err(|error| match error.kind() {
            ErrorKind::NotFound => ConnectError::NotAttached,
            ErrorKind::ConnectionRefused => ConnectError::Dead,
            ErrorKind::WouldBlock => ConnectError::Failed(CommandFailure::io(format!(
                "the daemon of {name} accepts no more connections; see its log, and `forebay list`"
            ))),
            _ => {
                let text = format!("cannot connect to {}: {error}", path.display());
                ConnectError::Failed(CommandFailure::io(text))
            }
        })?;
        Ok(ControlClient {
            name: name.clone(),
            stream: BufReader::new(stream),
            patience,
        })
    }

    /// Connects to the daemon of `name`, with the failure as text.
    pub fn connect(dirs: &ProgramDirs, name: &VolumeName) -> CommandResult<ControlClient> {
        ControlClient::within(dirs, name, PATIENCE)
    }

    /// Connects to the daemon of `name`, with `patience` as its timeout, and the failure as text.
    pub fn within(
        dirs: &ProgramDirs,
        name: &VolumeName,
        patience: Duration,
    ) -> CommandResult<ControlClient> {
        let connected = ControlClient::try_within(dirs, name, patience);
        connected.map_err(|absent| in_words(absent, Some(dirs), name))
    }

    /// Connects to the control socket at `path`.
    pub fn at(path: &Path, name: &VolumeName) -> CommandResult<ControlClient> {
        ControlClient::try_at(path, name, PATIENCE).map_err(|absent| in_words(absent, None, name))
    }

    /// Sends a request, and calls `progress` for every progress reply until the answer arrives.
    pub fn ask(
        &mut self,
        request: &ControlRequest,
        mut progress: impl FnMut(&RemainingWork),
    ) -> CommandResult<DaemonReply> {
        let mut line = serde_json::to_string(request).map_err(CommandFailure::general)?;
        line.push('\n');
        let sent = self.stream.get_mut().write_all(line.as_bytes());
        sent.map_err(|error| self.lost(&error))?;
        loop {
            match self.receive()? {
                DaemonReply::Progress(left) => progress(&left),
                DaemonReply::Failed { code, message } => {
                    return Err(CommandFailure::new(code, message));
                }
                reply => return Ok(reply),
            }
        }
    }

    fn receive(&mut self) -> CommandResult<DaemonReply> {
        let mut line = String::new();
        let mut limited = self.stream.by_ref().take(REPLY_BYTES_MAX as u64);
        let read = limited.read_line(&mut line);
        read.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => {
                let patience = self.patience;
                if self.is_stopped() {
                    self.lost(&"it is stopped, as by SIGSTOP; SIGCONT continues it")
                } else {
                    self.lost(&format_args!("it sent nothing for {patience:?}"))
                }
            }
            _ => self.lost(&error),
        })?;
        if !line.ends_with('\n') {
            return Err(self.lost(&"it closed the connection"));
        }
        serde_json::from_str(&line).map_err(|error| {
            CommandFailure::general(format!(
                "this program cannot decode the answer of the daemon of {} ({error}); check that both have the same \
                 version",
                self.name
            ))
        })
    }

    /// Requests a report.
    pub fn status(&mut self) -> CommandResult<StatusReport> {
        match self.ask(&ControlRequest::Status {}, |_| {})? {
            DaemonReply::Status(report) => Ok(*report),
            other => Err(self.confused(&other)),
        }
    }

    /// Requests the process id of the daemon.
    pub fn pid(&mut self) -> CommandResult<u32> {
        match self.ask(&ControlRequest::Ping {}, |_| {})? {
            DaemonReply::Pong { pid, .. } => Ok(pid),
            other => Err(self.confused(&other)),
        }
    }

    fn confused(&self, reply: &DaemonReply) -> CommandFailure {
        CommandFailure::general(format!(
            "the daemon of {} sent an unexpected reply: {reply:?}",
            self.name
        ))
    }

    fn lost(&self, why: &dyn std::fmt::Display) -> CommandFailure {
        let process = match self.peer() {
            Some(pid) => format!(" (process {pid})"),
            None => String::new(),
        };
        CommandFailure::io(format!(
            "the daemon of {}{process} does not answer: {why}; see its log, and `forebay list`",
            self.name
        ))
    }

    /// Returns the process that listens on the socket.
    fn peer(&self) -> Option<u32> {
        let peer = socket_peercred(self.stream.get_ref()).ok()?;
        u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
    }

    /// Returns true if a signal or a debugger has stopped the daemon.
    fn is_stopped(&self) -> bool {
        let stopped = |pid| matches!(state_of(pid), Some('T' | 't'));
        self.peer().is_some_and(stopped)
    }
}

/// Connects, with a timeout: the socket of a stopped daemon accepts only a few connections into its backlog.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    for timeout in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, timeout, Some(patience))?;
    }
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// Returns the reason for the missing connection and a remedy, as a failure.
fn in_words(absent: ConnectError, dirs: Option<&ProgramDirs>, name: &VolumeName) -> CommandFailure {
    let described = dirs.map(|dirs| dirs.description(name));
    let (is_files, is_known) = match &described {
        Some(Ok(description)) => (description.tree.kind().served_as() == ServedAs::Files, true),
        Some(Err(_)) => (
            false,
            dirs.is_some_and(|dirs| dirs.description_file(name).exists()),
        ),
        None => (false, true),
    };
    let (is_there, start) = if is_files {
        (format!("the filesystem {name} is not mounted"), "mount")
    } else {
        (format!("the volume {name} is not attached"), "attach")
    };
    match absent {
        ConnectError::NotAttached if !is_known => CommandFailure::not_found(format!(
            "no volume {name}: no attached volume and no configuration file has that name; see `forebay list`"
        )),
        ConnectError::NotAttached => CommandFailure::not_found(format!(
            "{is_there}; {start} it with: forebay {start} {name}"
        )),
        ConnectError::Dead if !is_known => CommandFailure::not_found(format!(
            "{is_there}: its daemon ended abruptly; it has no configuration file: attach it again by its devices \
             (--log PATH, --data PATH)"
        )),
        ConnectError::Dead => CommandFailure::not_found(format!(
            "{is_there}: its daemon ended abruptly; recover it with: forebay {start} {name}"
        )),
        ConnectError::Failed(failure) => failure,
    }
}

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
