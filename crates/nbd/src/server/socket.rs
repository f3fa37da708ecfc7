//! Sockets as wires, and the loop that accepts connections.

use std::io;
use std::net::Shutdown;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut};
use forebay_linux::{SocketListener, SocketStream};
use futures_util::future::{Either, select};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::nbd_server::NbdServer;
use super::wire::{NbdWire, WireFuture};

/// Pause after the system ran out of a resource, until other sockets or files are closed.
const SCARCITY_PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct NbdSocket(SocketStream);

impl NbdSocket {
    pub(crate) fn new(stream: SocketStream) -> NbdSocket {
        // An idle client may stay connected for ever, but a client whose machine is gone should not.
        if let Err(error) = sockopt::set_socket_keepalive(&**stream.fd(), true) {
            tracing::debug!(target: "forebay::nbd", %error, "no keep-alive");
        }
        NbdSocket(stream)
    }
}

impl NbdWire for NbdSocket {
    fn recv(&self, buf: BufMut) -> WireFuture<'_, (BufMut, usize)> {
        Box::pin(self.0.recv(buf))
    }

    fn send(&self, bufs: Vec<Buf>) -> WireFuture<'_, ()> {
        Box::pin(self.0.send_vectored(bufs))
    }

    fn shutdown(&self) {
        // An error means that the peer has closed the connection first.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl NbdServer {
    /// Accepts connections from `listener` until [`NbdServer::shutdown`].
    ///
    /// # Errors
    /// If accepting fails for a reason that does not go away with time.
    pub async fn listen(&self, listener: &SocketListener) -> io::Result<()> {
        let mut closing = pin!(self.closing());
        loop {
            let accepted = match select(pin!(listener.accept()), closing.as_mut()).await {
                Either::Left((accepted, _)) => accepted,
                Either::Right(_) => return Ok(()),
            };
            match accepted {
                Ok(stream) => self.connect(Rc::new(NbdSocket::new(stream))),
                Err(error) if is_scarcity(&error) => {
                    tracing::warn!(target: "forebay::nbd", %error, "cannot accept for now");
                    self.rt().sleep(SCARCITY_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_scarcity(error: &io::Error) -> bool {
    let scarce = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| scarce.contains(&errno))
}
