//! A connection to a volume's control socket whose waits never exceed the deadline.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Maximum length of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A connection.
pub(super) struct VolumeSocket {
    stream: UnixStream,
}

impl VolumeSocket {
    /// Connects without waiting. Fails if the server does not accept clients, or too many clients are queued.
    ///
    /// # Errors
    /// If the socket has no server, or the caller may not connect.
    pub(super) fn connect(path: &Path) -> io::Result<VolumeSocket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(VolumeSocket { stream })
    }

    /// Sends a line, and returns the line of the answer.
    ///
    /// # Errors
    /// `TimedOut` if the answer is not complete at the deadline; otherwise the errors of a socket.
    pub(super) fn ask(&mut self, line: &str, deadline: Instant) -> io::Result<Vec<u8>> {
        self.stream.set_write_timeout(Some(left(deadline)?))?;
        self.stream.write_all(line.as_bytes())?;
        let (mut answer, mut part) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            self.stream.set_read_timeout(Some(left(deadline)?))?;
            let n = match self.stream.read(&mut part) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(ErrorKind::TimedOut.into());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            answer.extend_from_slice(&part[..n]);
            if answer.ends_with(b"\n") {
                return Ok(answer);
            }
            if answer.len() > ANSWER_BYTES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(ErrorKind::TimedOut.into())
    } else {
        Ok(left)
    }
}
