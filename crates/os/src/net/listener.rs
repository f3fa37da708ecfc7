//! Waiting for connections.

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
use super::{Address, Stream};
use crate::{Fd, Ring};

/// How long to wait for an address that is in use. After a process is killed, the requests that it
/// had under way keep its sockets listening until the kernel is done with them; they cannot be told
/// from a living process's, but for that they go away.
const IN_USE_MAX: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Tries `bind` until the address is free, for a while.
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

/// A socket that others connect to.
pub struct Listener {
    ring: Rc<Ring>,
    fd: Fd,
    /// The socket file we made, with its device and inode numbers.
    made: Option<(PathBuf, u64, u64)>,
}

impl Listener {
    /// Listens at `address`.
    ///
    /// # Errors
    /// As [`Listener::unix`] and [`Listener::tcp`] do.
    pub fn bind(ring: &Rc<Ring>, address: &Address) -> io::Result<Listener> {
        match address {
            Address::Unix(path) => Listener::unix(ring, path),
            Address::Tcp(host_and_port) => Listener::tcp(ring, &Address::resolve(host_and_port)?),
        }
    }

    /// Listens on a unix socket at `path`. A socket file that nobody answers on, left by a process
    /// that ended abruptly, is replaced. The file is removed when the listener is dropped.
    ///
    /// # Errors
    /// `AddrInUse` if somebody goes on answering there, or the path is something other than a socket.
    pub fn unix(ring: &Rc<Ring>, path: &Path) -> io::Result<Listener> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                refuse_what_is_no_socket(path)?;
                patiently(|| remove_stale(path))?;
                UnixListener::bind(path)?
            }
            other => other?,
        };
        let made = fs::symlink_metadata(path)?;
        Ok(Listener {
            ring: Rc::clone(ring),
            fd: Rc::new(listener.into()),
            made: Some((path.into(), made.dev(), made.ino())),
        })
    }

    /// Listens on the first of `addresses` that can be had. Port 0 takes a free one; see
    /// [`Listener::local_address`].
    ///
    /// # Errors
    /// What `bind(2)` says of the last of them.
    pub fn tcp(ring: &Rc<Ring>, addresses: &[SocketAddr]) -> io::Result<Listener> {
        let listener = patiently(|| TcpListener::bind(addresses))?;
        Listener::from_fd(ring, listener.into())
    }

    /// Takes over a listening socket, for example one a service manager passed on.
    ///
    /// # Errors
    /// If it is no descriptor that can be waited on.
    pub fn from_fd(ring: &Rc<Ring>, fd: OwnedFd) -> io::Result<Listener> {
        make_blocking(&fd)?;
        Ok(Listener {
            ring: Rc::clone(ring),
            fd: Rc::new(fd),
            made: None,
        })
    }

    /// Where a TCP listener listens; `None` for a unix one.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let address = rustix::net::getsockname(&*self.fd).ok()?;
        SocketAddr::try_from(address).ok()
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// If the process has no descriptor left (`EMFILE`): close some or wait before trying again.
    pub async fn accept(&self) -> io::Result<Stream> {
        loop {
            match self.ring.accept(&self.fd).await {
                // That one gave up while it waited; the next may not.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                result => return Stream::from_fd(&self.ring, result?),
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some((path, dev, ino)) = &self.made else {
            return;
        };
        // Only if it is still ours: another may have taken the place.
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
        // Its owner removed it meanwhile.
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
