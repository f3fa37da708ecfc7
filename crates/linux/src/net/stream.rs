//! A connection.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;

use forebay_device::{Buf, BufMut};
use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::SocketAddress;
use crate::ring::SocketMessage;
use crate::{IoRing, SharedFd};

/// Buffer of a unix socket in bytes, for each direction. The system's default holds less than one large request, so
/// each request would take several rounds between the two processes. (TCP adjusts its buffers itself, and better than a
/// constant would.)
const UNIX_BUFFER_BYTES: usize = 4 << 20;

/// A connected socket. One receive and one send may be in progress at the same time.
pub struct SocketStream {
    ring: Rc<IoRing>,
    fd: SharedFd,
}

impl SocketStream {
    /// Takes over a connected socket and configures it: no delay for TCP, large buffers for unix.
    ///
    /// # Errors
    /// If the descriptor is not a socket.
    pub fn from_fd(ring: &Rc<IoRing>, fd: OwnedFd) -> io::Result<SocketStream> {
        make_blocking(&fd)?;
        if sockopt::socket_domain(&fd)? == AddressFamily::UNIX {
            enlarge_buffers(&fd)?;
        } else {
            sockopt::set_tcp_nodelay(&fd, true)?;
        }
        Ok(SocketStream {
            ring: Rc::clone(ring),
            fd: Rc::new(fd),
        })
    }

    /// Creates two unix sockets that are connected to each other.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn pair(ring: &Rc<IoRing>) -> io::Result<(SocketStream, SocketStream)> {
        let (a, b) = std::os::unix::net::UnixStream::pair()?;
        Ok((
            SocketStream::from_fd(ring, a.into())?,
            SocketStream::from_fd(ring, b.into())?,
        ))
    }

    /// Connects to `address`. If a host name has several addresses, connects to the first that answers.
    ///
    /// # Errors
    /// The error of `connect(2)` for the last address, or that the name is unknown.
    pub async fn connect(ring: &Rc<IoRing>, address: &SocketAddress) -> io::Result<SocketStream> {
        let host_and_port = match address {
            SocketAddress::Unix(path) => return SocketStream::connect_unix(ring, path).await,
            SocketAddress::Tcp(host_and_port) => host_and_port,
        };
        let mut last = None;
        for address in SocketAddress::resolve(host_and_port)? {
            match SocketStream::connect_tcp(ring, address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("a resolved name has at least one address"))
    }

    /// Connects to the unix socket at `path`.
    ///
    /// # Errors
    /// Those of `connect(2)`.
    pub async fn connect_unix(ring: &Rc<IoRing>, path: &Path) -> io::Result<SocketStream> {
        let address = SocketAddrUnix::new(path)?;
        SocketStream::connect_any(ring, AddressFamily::UNIX, address.into()).await
    }

    /// Connects by TCP.
    ///
    /// # Errors
    /// Those of `connect(2)`.
    pub async fn connect_tcp(ring: &Rc<IoRing>, address: SocketAddr) -> io::Result<SocketStream> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        SocketStream::connect_any(ring, family, address.into()).await
    }

    async fn connect_any(
        ring: &Rc<IoRing>,
        family: AddressFamily,
        address: SocketAddrAny,
    ) -> io::Result<SocketStream> {
        let kind = SocketType::STREAM;
        let fd = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        let fd = Rc::new(fd);
        ring.connect(&fd, address).await?;
        let fd = Rc::into_inner(fd).expect("the request that shared it is done");
        SocketStream::from_fd(ring, fd)
    }

    /// Receives once, up to the whole of `buf`, and returns the buffer with the number of received bytes: 0 if the peer
    /// has finished sending. If the future is dropped, bytes may be lost.
    ///
    /// # Errors
    /// Those of `recv(2)`, for example that the peer is gone.
    pub async fn recv(&self, buf: BufMut) -> io::Result<(BufMut, usize)> {
        let (result, buf) = self.ring.recv(&self.fd, buf).await;
        Ok((buf, result? as usize))
    }

    /// Sends all of `buf`.
    ///
    /// # Errors
    /// Those of `send(2)`; a part may have been sent then.
    pub async fn send(&self, mut buf: Buf) -> io::Result<()> {
        let mut sent = 0;
        while sent < buf.len() {
            let (result, back) = self.ring.send(&self.fd, buf, sent).await;
            sent += some(result?)?;
            buf = back;
        }
        Ok(())
    }

    /// Sends all of `bufs`, in order, without copying them together.
    ///
    /// # Errors
    /// As for [`SocketStream::send`].
    pub async fn send_vectored(&self, bufs: Vec<Buf>) -> io::Result<()> {
        let mut message = SocketMessage::new(bufs);
        while !message.is_sent() {
            let (result, back) = self.ring.send_message(&self.fd, message).await;
            message = back;
            message.advance(some(result?)?);
        }
        Ok(())
    }

    /// Shuts down one or both directions. A waiting receive, here or at the peer, then sees the end.
    ///
    /// # Errors
    /// If the connection is already gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => rustix::net::Shutdown::Read,
            Shutdown::Write => rustix::net::Shutdown::Write,
            Shutdown::Both => rustix::net::Shutdown::Both,
        };
        Ok(rustix::net::shutdown(&*self.fd, how)?)
    }

    /// Returns the socket, for operations that this type lacks.
    pub fn fd(&self) -> &SharedFd {
        &self.fd
    }
}

/// Fails on a send of 0 bytes, which would otherwise be retried forever.
fn some(sent: u32) -> io::Result<usize> {
    match sent {
        0 => Err(io::ErrorKind::WriteZero.into()),
        n => Ok(n as usize),
    }
}

/// The ring waits by itself; for a descriptor in non-blocking mode it would return `EAGAIN`.
pub(super) fn make_blocking(fd: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    if flags.contains(OFlags::NONBLOCK) {
        rustix::fs::fcntl_setfl(fd, flags - OFlags::NONBLOCK)?;
    }
    Ok(())
}

/// Sets the size by the privileged option if permitted, else up to the system's limit (`net.core.wmem_max`).
fn enlarge_buffers(fd: &OwnedFd) -> io::Result<()> {
    if sockopt::set_socket_send_buffer_size_force(fd, UNIX_BUFFER_BYTES).is_err() {
        sockopt::set_socket_send_buffer_size(fd, UNIX_BUFFER_BYTES)?;
    }
    if sockopt::set_socket_recv_buffer_size_force(fd, UNIX_BUFFER_BYTES).is_err() {
        sockopt::set_socket_recv_buffer_size(fd, UNIX_BUFFER_BYTES)?;
    }
    Ok(())
}
