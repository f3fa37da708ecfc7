//! The client of a control socket.

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::process::process_state;
use crate::protocol::{ControlReply, ControlRequest, FailureCode, REPLY_BYTES_MAX, RemainingWork};
use crate::report::VolumeReport;

/// Time for a daemon to answer a request; it sends progress more often.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// Time for a daemon that a signal or a debugger has stopped to continue.
const STOPPED_PATIENCE: Duration = Duration::from_secs(1);
/// Interval at which a waiting client looks at the state of the daemon.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A connection to the daemon of an attached volume, whose layers have the status `S`.
pub struct ControlClient<S> {
    name: String,
    stream: BufReader<UnixStream>,
    patience: Duration,
    status: PhantomData<fn() -> S>,
}

/// The reason why no connection was made.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The control socket does not exist.
    #[error("the volume is not attached")]
    NotAttached,
    /// The daemon was killed: its socket exists, but no process listens.
    #[error("the daemon of the volume ended abruptly")]
    Dead,
    /// Any other failure.
    #[error(transparent)]
    Failed(ControlError),
}

/// The failure of a request to the daemon of a volume.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The daemon has no free slot for a connection.
    #[error("the daemon of {volume} accepts no more connections; see its log, and `forebay list`")]
    Full {
        /// The name of the volume.
        volume: String,
    },
    /// The socket cannot be connected.
    #[error("cannot connect to {}: {source}", path.display())]
    Unreachable {
        /// The path of the socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The daemon does not answer.
    #[error("the daemon of {volume}{} does not answer: {why}; see its log, and `forebay list`", in_brackets(*process))]
    Silent {
        /// The name of the volume.
        volume: String,
        /// The process id of the daemon, if known.
        process: Option<u32>,
        /// The reason.
        why: String,
    },
    /// The answer is not a reply of the protocol.
    #[error(
        "this program cannot decode the answer of the daemon of {volume} ({source}); check that both have the same \
         version"
    )]
    Undecodable {
        /// The name of the volume.
        volume: String,
        /// The reason.
        source: serde_json::Error,
    },
    /// The reply belongs to another request.
    #[error(
        "the daemon of {volume} sent an unexpected reply ({reply}); check that the program and the daemon have the same \
         version"
    )]
    Unexpected {
        /// The name of the volume.
        volume: String,
        /// The name of the reply.
        reply: &'static str,
    },
    /// The request cannot be encoded.
    #[error(transparent)]
    Unencodable(serde_json::Error),
    /// The daemon reports a failure.
    #[error("{message}")]
    Refused {
        /// The kind of failure.
        code: FailureCode,
        /// The event, its reason, and a remedy.
        message: String,
    },
}

impl ControlError {
    /// Returns the kind of failure.
    pub fn code(&self) -> FailureCode {
        match self {
            ControlError::Full { .. }
            | ControlError::Unreachable { .. }
            | ControlError::Silent { .. } => FailureCode::Io,
            ControlError::Undecodable { .. }
            | ControlError::Unexpected { .. }
            | ControlError::Unencodable(_) => FailureCode::General,
            ControlError::Refused { code, .. } => *code,
        }
    }
}

fn in_brackets(process: Option<u32>) -> String {
    process.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

impl<S: DeserializeOwned> ControlClient<S> {
    /// Connects to the control socket at `path`, of the volume `name`, with `patience` as the timeout for each answer.
    ///
    /// # Errors
    /// If no daemon listens there, or the connection fails.
    pub fn connect(
        path: &Path,
        name: &str,
        patience: Duration,
    ) -> Result<ControlClient<S>, ConnectError> {
        let stream = connect(path, patience).map_err(|error| match error.kind() {
            ErrorKind::NotFound => ConnectError::NotAttached,
            ErrorKind::ConnectionRefused => ConnectError::Dead,
            ErrorKind::WouldBlock => ConnectError::Failed(ControlError::Full {
                volume: name.to_owned(),
            }),
            _ => ConnectError::Failed(ControlError::Unreachable {
                path: path.to_owned(),
                source: error,
            }),
        })?;
        Ok(ControlClient {
            name: name.to_owned(),
            stream: BufReader::new(stream),
            patience,
            status: PhantomData,
        })
    }

    /// Sends a request, and calls `progress` for every progress reply until the answer arrives.
    ///
    /// # Errors
    /// If the daemon reports a failure, or does not answer.
    pub fn ask(
        &mut self,
        request: &ControlRequest,
        mut progress: impl FnMut(&RemainingWork),
    ) -> Result<ControlReply<S>, ControlError> {
        let mut line = serde_json::to_string(request).map_err(ControlError::Unencodable)?;
        line.push('\n');
        let sent = self.stream.get_mut().write_all(line.as_bytes());
        sent.map_err(|error| self.silent(&error))?;
        loop {
            match self.receive()? {
                ControlReply::Progress(left) => progress(&left),
                ControlReply::Failed { code, message } => {
                    return Err(ControlError::Refused { code, message });
                }
                reply => return Ok(reply),
            }
        }
    }

    fn receive(&mut self) -> Result<ControlReply<S>, ControlError> {
        let line = self.receive_line()?;
        if !line.ends_with(b"\n") {
            return Err(self.silent(&"it closed the connection"));
        }
        serde_json::from_slice(&line).map_err(|source| ControlError::Undecodable {
            volume: self.name.clone(),
            source,
        })
    }

    /// Receives a line, or what precedes the end of the connection or the length limit.
    fn receive_line(&mut self) -> Result<Vec<u8>, ControlError> {
        let begun = Instant::now();
        let mut line = Vec::new();
        loop {
            let room = REPLY_BYTES_MAX.saturating_sub(line.len()) as u64;
            let mut limited = self.stream.by_ref().take(room);
            match limited.read_until(b'\n', &mut line) {
                Ok(_) => return Ok(line),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(self.silent(&error)),
            }
            let (waited, patience) = (begun.elapsed(), self.patience);
            if waited >= patience.min(STOPPED_PATIENCE) && self.is_stopped() {
                return Err(self.silent(&"it is stopped, as by SIGSTOP; SIGCONT continues it"));
            }
            if waited >= patience {
                return Err(self.silent(&format_args!("it sent nothing for {patience:?}")));
            }
        }
    }

    /// Requests a report.
    ///
    /// # Errors
    /// If the daemon does not answer with a report.
    pub fn status(&mut self) -> Result<VolumeReport<S>, ControlError> {
        match self.ask(&ControlRequest::Status {}, |_| {})? {
            ControlReply::Status(report) => Ok(*report),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Requests the process id of the daemon.
    ///
    /// # Errors
    /// If the daemon does not answer with its id.
    pub fn pid(&mut self) -> Result<u32, ControlError> {
        match self.ask(&ControlRequest::Ping {}, |_| {})? {
            ControlReply::Pong { pid, .. } => Ok(pid),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns the failure of a request whose reply belongs to another request.
    pub fn unexpected(&self, reply: &ControlReply<S>) -> ControlError {
        ControlError::Unexpected {
            volume: self.name.clone(),
            reply: reply.name(),
        }
    }

    fn silent(&self, why: &dyn fmt::Display) -> ControlError {
        ControlError::Silent {
            volume: self.name.clone(),
            process: self.peer(),
            why: why.to_string(),
        }
    }

    /// Returns the process that listens on the socket.
    fn peer(&self) -> Option<u32> {
        let peer = socket_peercred(self.stream.get_ref()).ok()?;
        u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
    }

    /// Returns true if a signal or a debugger has stopped the daemon.
    fn is_stopped(&self) -> bool {
        let stopped = |pid| matches!(process_state(pid), Some('T' | 't'));
        self.peer().is_some_and(stopped)
    }
}

/// Connects, with a timeout: the socket of a stopped daemon accepts only a few connections into its backlog.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(patience.min(LOOK_EVERY)))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}
