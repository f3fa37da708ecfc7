//! Listening sockets.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::stream::make_blocking;
use super::{SocketAddress, SocketStream};
use crate::{IoRing, SharedFd};

/// Longest wait for an address that is in use. After a process is killed, its requests in progress keep its sockets
/// listening until the kernel has finished them. Such sockets cannot be distinguished from those of a running process,
/// except that they disappear.
const IN_USE_MAX: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Retries `bind` until the address is free, up to a time limit.
fn patiently<T>(bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let until = Instant::now() + IN_USE_MAX;
    loop {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                std::thread::sleep(LOOK_EVERY);
            }
            done => return done,
        }
    }
}

/// A listening socket.
pub struct SocketListener {
    ring: Rc<IoRing>,
    fd: SharedFd,
    /// The socket file that this listener created, with its device and inode numbers.
    made: Option<(PathBuf, u64, u64)>,
}

impl SocketListener {
    /// Listens at `address`.
    ///
    /// # Errors
    /// Those of [`SocketListener::unix`] and [`SocketListener::tcp`].
    pub fn bind(ring: &Rc<IoRing>, address: &SocketAddress) -> io::Result<SocketListener> {
        match address {
            SocketAddress::Unix(path) => SocketListener::unix(ring, path),
            SocketAddress::Tcp(host_and_port) => {
                SocketListener::tcp(ring, &SocketAddress::resolve(host_and_port)?)
            }
        }
    }

    /// Listens on a unix socket at `path`. A socket file without a listener, left by a process that ended abruptly, is
    /// replaced. The file is removed when the listener is dropped.
    ///
    /// # Errors
    /// `AddrInUse` if another process keeps listening there, or the path is not a socket.
    pub fn unix(ring: &Rc<IoRing>, path: &Path) -> io::Result<SocketListener> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                refuse_what_is_no_socket(path)?;
                patiently(|| remove_stale(path))?;
                UnixListener::bind(path)?
            }
            other => other?,
        };
        let made = fs::symlink_metadata(path)?;
        Ok(SocketListener {
            ring: Rc::clone(ring),
            fd: Rc::new(listener.into()),
            made: Some((path.into(), made.dev(), made.ino())),
        })
    }

    /// Listens on the first of `addresses` that is available. Port 0 selects a free port; see
    /// [`SocketListener::local_address`].
    ///
    /// # Errors
    /// The error of `bind(2)` for the last address.
    pub fn tcp(ring: &Rc<IoRing>, addresses: &[SocketAddr]) -> io::Result<SocketListener> {
        let listener = patiently(|| TcpListener::bind(addresses))?;
        SocketListener::from_fd(ring, listener.into())
    }

    /// Takes over a listening socket, for example from a service manager.
    ///
    /// # Errors
    /// If the descriptor cannot be waited on.
    pub fn from_fd(ring: &Rc<IoRing>, fd: OwnedFd) -> io::Result<SocketListener> {
        make_blocking(&fd)?;
        Ok(SocketListener {
            ring: Rc::clone(ring),
            fd: Rc::new(fd),
            made: None,
        })
    }

    /// Returns the address of a TCP listener; `None` for a unix socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let address = rustix::net::getsockname(&*self.fd).ok()?;
        SocketAddr::try_from(address).ok()
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// If the process has no descriptor left (`EMFILE`): the caller must close some or wait before it tries again.
    pub async fn accept(&self) -> io::Result<SocketStream> {
        loop {
            match self.ring.accept(&self.fd).await {
                // The client closed this connection while it was queued; the next connection may be good.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                result => return SocketStream::from_fd(&self.ring, result?),
            }
        }
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        let Some((path, dev, ino)) = &self.made else {
            return;
        };
        // Only if the file is still the one created here: another process may have replaced it.
        let ours = fs::symlink_metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (*dev, *ino));
        if ours && let Err(error) = fs::remove_file(path) {
            tracing::debug!(%error, path = %path.display(), "cannot remove the socket file");
        }
    }
}

fn in_use(path: &Path, why: &str) -> io::Error {
    let text = format!("cannot listen at {}: {why}", path.display());
    io::Error::new(io::ErrorKind::AddrInUse, text)
}

fn refuse_what_is_no_socket(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(());
    }
    let why = "the path exists and is not a socket; remove it or choose another";
    Err(in_use(path, why))
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        // The owner removed it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(in_use(
            path,
            "another process listens there; stop it or choose another path",
        )),
        Err(error) => {
            let why = format!("the socket there cannot be tried ({error})");
            Err(in_use(path, &why))
        }
    }
}
