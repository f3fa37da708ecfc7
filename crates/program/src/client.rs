//! The client of a control socket.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use forebay_control::{Left, REPLY_BYTES_MAX, Request};
use forebay_stack::Name;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

use crate::dirs::Dirs;
use crate::failure::{Failure, Outcome};
use crate::report::{Reply, Report};

/// A daemon answers the small questions within this time, and sends progress more often.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to the daemon of an attached volume.
pub struct Client {
    name: Name,
    stream: BufReader<UnixStream>,
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
        Client::try_at(&dirs.control_socket(name), name)
    }

    fn try_at(path: &Path, name: &Name) -> Result<Client, Absent> {
        let failed = |error: std::io::Error| {
            let text = format!("cannot connect to {}: {error}", path.display());
            Absent::Failed(Failure::io(text))
        };
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Absent::NotAttached,
            ErrorKind::ConnectionRefused => Absent::Dead,
            _ => failed(error),
        })?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        Ok(Client {
            name: name.clone(),
            stream: BufReader::new(stream),
        })
    }

    /// The same, with the failure in words.
    pub fn connect(dirs: &Dirs, name: &Name) -> Outcome<Client> {
        Client::at(&dirs.control_socket(name), name)
    }

    /// Connects to the control socket at `path`.
    pub fn at(path: &Path, name: &Name) -> Outcome<Client> {
        Client::try_at(path, name).map_err(|absent| match absent {
            Absent::NotAttached => Failure::not_found(format!(
                "the volume {name} is not attached; attach it with: forebay attach {name}"
            )),
            Absent::Dead => Failure::not_found(format!(
                "the volume {name} is not attached: its daemon ended abruptly; recover it with: \
                 forebay attach {name}"
            )),
            Absent::Failed(failure) => failure,
        })
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
            ErrorKind::WouldBlock => self.lost(&format_args!("it said nothing for {PATIENCE:?}")),
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
        Failure::io(format!(
            "the daemon of {} does not answer: {why}; see its log, and `forebay list`",
            self.name
        ))
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
