//! The client of a control socket.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use forebay_control::{Left, REPLY_BYTES_MAX, Request};
use forebay_stack::{Kind, Name};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags};

use crate::dirs::{Dirs, state_of};
use crate::failure::{Failure, Outcome};
use crate::report::{Reply, Report};

/// Time for a daemon to answer a request; it sends progress more often.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to the daemon of an attached volume.
pub struct Client {
    name: Name,
    stream: BufReader<UnixStream>,
    patience: Duration,
}

/// The reason why no connection was made.
pub enum Absent {
    /// The volume is not attached.
    NotAttached,
    /// The daemon was killed: its socket exists, but no process listens.
    Dead,
    /// Any other failure.
    Failed(Failure),
}

impl Client {
    /// Connects to the daemon of `name`.
    pub fn try_connect(dirs: &Dirs, name: &Name) -> Result<Client, Absent> {
        Client::try_within(dirs, name, PATIENCE)
    }

    /// Connects to the daemon of `name`, with `patience` as the timeout for each of its answers.
    pub fn try_within(dirs: &Dirs, name: &Name, patience: Duration) -> Result<Client, Absent> {
        match Client::try_at(&dirs.control_socket(name), name, patience) {
            // A refused attach may since have removed the socket of the previous daemon.
            Err(Absent::NotAttached) if dirs.ended_abruptly(name) => Err(Absent::Dead),
            connected => connected,
        }
    }

    fn try_at(path: &Path, name: &Name, patience: Duration) -> Result<Client, Absent> {
        let stream = connect(path, patience).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Absent::NotAttached,
            ErrorKind::ConnectionRefused => Absent::Dead,
            ErrorKind::WouldBlock => Absent::Failed(Failure::io(format!(
                "the daemon of {name} takes no more connections; see its log, and `forebay list`"
            ))),
            _ => {
                let text = format!("cannot connect to {}: {error}", path.display());
                Absent::Failed(Failure::io(text))
            }
        })?;
        Ok(Client {
            name: name.clone(),
            stream: BufReader::new(stream),
            patience,
        })
    }

    /// Connects to the daemon of `name`, with the failure as text.
    pub fn connect(dirs: &Dirs, name: &Name) -> Outcome<Client> {
        Client::within(dirs, name, PATIENCE)
    }

    /// Connects to the daemon of `name`, with `patience` as its timeout, and the failure as text.
    pub fn within(dirs: &Dirs, name: &Name, patience: Duration) -> Outcome<Client> {
        let connected = Client::try_within(dirs, name, patience);
        connected.map_err(|absent| in_words(absent, Some(dirs), name))
    }

    /// Connects to the control socket at `path`.
    pub fn at(path: &Path, name: &Name) -> Outcome<Client> {
        Client::try_at(path, name, PATIENCE).map_err(|absent| in_words(absent, None, name))
    }

    /// Sends a request, and calls `progress` for every progress reply until the answer arrives.
    pub fn ask(&mut self, request: &Request, mut progress: impl FnMut(&Left)) -> Outcome<Reply> {
        let mut line = serde_json::to_string(request).map_err(Failure::general)?;
        line.push('\n');
        let sent = self.stream.get_mut().write_all(line.as_bytes());
        sent.map_err(|error| self.lost(&error))?;
        loop {
            match self.receive()? {
                Reply::Progress(left) => progress(&left),
                Reply::Failed { code, message } => return Err(Failure::new(code, message)),
                reply => return Ok(reply),
            }
        }
    }

    fn receive(&mut self) -> Outcome<Reply> {
        let mut line = String::new();
        let mut limited = self.stream.by_ref().take(REPLY_BYTES_MAX as u64);
        let read = limited.read_line(&mut line);
        read.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => {
                let patience = self.patience;
                if self.is_stopped() {
                    self.lost(&"it is stopped, as by SIGSTOP; SIGCONT has it go on")
                } else {
                    self.lost(&format_args!("it said nothing for {patience:?}"))
                }
            }
            _ => self.lost(&error),
        })?;
        if !line.ends_with('\n') {
            return Err(self.lost(&"it closed the connection"));
        }
        serde_json::from_str(&line).map_err(|error| {
            Failure::general(format!(
                "the daemon of {} answers in another way than this program understands ({error}); \
                 are they of one version?",
                self.name
            ))
        })
    }

    /// Requests a report.
    pub fn status(&mut self) -> Outcome<Report> {
        match self.ask(&Request::Status {}, |_| {})? {
            Reply::Status(report) => Ok(*report),
            other => Err(self.confused(&other)),
        }
    }

    /// Requests the process id of the daemon.
    pub fn pid(&mut self) -> Outcome<u32> {
        match self.ask(&Request::Ping {}, |_| {})? {
            Reply::Pong { pid, .. } => Ok(pid),
            other => Err(self.confused(&other)),
        }
    }

    fn confused(&self, reply: &Reply) -> Failure {
        Failure::general(format!(
            "the daemon of {} gave an answer to another question: {reply:?}",
            self.name
        ))
    }

    fn lost(&self, why: &dyn std::fmt::Display) -> Failure {
        let process = match self.peer() {
            Some(pid) => format!(" (process {pid})"),
            None => String::new(),
        };
        Failure::io(format!(
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
fn in_words(absent: Absent, dirs: Option<&Dirs>, name: &Name) -> Failure {
    let described = dirs.map(|dirs| dirs.description(name));
    let (is_files, is_known) = match &described {
        Some(Ok(description)) => (description.tree.kind() == Kind::Files, true),
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
        Absent::NotAttached if !is_known => Failure::not_found(format!(
            "there is no volume {name}: nothing of that name is attached or described; see `forebay list`"
        )),
        Absent::NotAttached => Failure::not_found(format!(
            "{is_there}; {start} it with: forebay {start} {name}"
        )),
        Absent::Dead if !is_known => Failure::not_found(format!(
            "{is_there}: its daemon ended abruptly; it has no description: attach it again by its devices \
             (--log PATH, --data PATH)"
        )),
        Absent::Dead => Failure::not_found(format!(
            "{is_there}: its daemon ended abruptly; recover it with: forebay {start} {name}"
        )),
        Absent::Failed(failure) => failure,
    }
}

/// A handle on a process that waits for the end of the process, even if it is not our child.
pub struct Process(OwnedFd);

impl Process {
    /// Opens the process `pid`; `None` if it does not exist, or the system has no such handles.
    pub fn open(pid: u32) -> Option<Process> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Process(fd))
    }

    /// Waits until the process has ended and has released its resources. Returns false after the time limit `patience`.
    pub fn wait(&self, patience: Duration) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let timeout = Timespec::try_from(patience).ok();
        matches!(rustix::event::poll(&mut fds, timeout.as_ref()), Ok(1..))
    }
}
