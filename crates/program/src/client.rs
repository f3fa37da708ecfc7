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

/// A daemon answers the small questions within this time, and sends progress more often.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to the daemon of an attached volume.
pub struct Client {
    name: Name,
    stream: BufReader<UnixStream>,
    patience: Duration,
}

/// Why there is no connection.
pub enum Absent {
    /// The volume is not attached.
    NotAttached,
    /// Its daemon was killed: the socket is there, nobody answers.
    Dead,
    /// Something else.
    Failed(Failure),
}

impl Client {
    /// Connects to the daemon of `name`.
    pub fn try_connect(dirs: &Dirs, name: &Name) -> Result<Client, Absent> {
        Client::try_within(dirs, name, PATIENCE)
    }

    /// Connects to the daemon of `name`, which is given up if it says nothing for as long as `patience`.
    pub fn try_within(dirs: &Dirs, name: &Name, patience: Duration) -> Result<Client, Absent> {
        match Client::try_at(&dirs.control_socket(name), name, patience) {
            // An attach that was refused since has taken the socket of the daemon before along.
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

    /// The same, with the failure in words.
    pub fn connect(dirs: &Dirs, name: &Name) -> Outcome<Client> {
        Client::within(dirs, name, PATIENCE)
    }

    /// The same, with a `patience` of its own.
    pub fn within(dirs: &Dirs, name: &Name, patience: Duration) -> Outcome<Client> {
        let connected = Client::try_within(dirs, name, patience);
        connected.map_err(|absent| in_words(absent, Some(dirs), name))
    }

    /// Connects to the control socket at `path`.
    pub fn at(path: &Path, name: &Name) -> Outcome<Client> {
        Client::try_at(path, name, PATIENCE).map_err(|absent| in_words(absent, None, name))
    }

    /// Asks, and gives every progress to `progress` until the answer comes.
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
                match self.is_stopped() {
                    true => self.lost(&"it is stopped, as by SIGSTOP; SIGCONT has it go on"),
                    false => self.lost(&format_args!("it said nothing for {patience:?}")),
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

    /// Asks for a report.
    pub fn status(&mut self) -> Outcome<Report> {
        match self.ask(&Request::Status {}, |_| {})? {
            Reply::Status(report) => Ok(*report),
            other => Err(self.confused(&other)),
        }
    }

    /// Asks who is there.
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

    /// The process that listens on the socket.
    fn peer(&self) -> Option<u32> {
        let peer = socket_peercred(self.stream.get_ref()).ok()?;
        u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
    }

    /// True if a signal or a debugger has stopped the daemon.
    fn is_stopped(&self) -> bool {
        let stopped = |pid| matches!(state_of(pid), Some('T' | 't'));
        self.peer().is_some_and(stopped)
    }
}

/// Connects, and gives up where nobody takes the connection: a daemon that is stopped has room for only some that wait.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    for timeout in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, timeout, Some(patience))?;
    }
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// Why there is no connection, and what to do.
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
    let (is_there, start) = match is_files {
        true => (format!("the filesystem {name} is not mounted"), "mount"),
        false => (format!("the volume {name} is not attached"), "attach"),
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

/// A handle on a process, by which its end can be waited for even if it is not our child.
pub struct Process(OwnedFd);

impl Process {
    /// The process `pid`, if there is one and the system has such handles.
    pub fn open(pid: u32) -> Option<Process> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Process(fd))
    }

    /// Waits until it has ended, with all it held released; false if that takes longer.
    pub fn wait(&self, patience: Duration) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let timeout = Timespec::try_from(patience).ok();
        matches!(rustix::event::poll(&mut fds, timeout.as_ref()), Ok(1..))
    }
}
