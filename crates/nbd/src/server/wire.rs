//! The narrow interface to a connection, so that the server runs over memory as well as over sockets.

use std::future::Future;
use std::io;
use std::pin::Pin;

use forebay_device::{Buf, BufMut};

/// The future of one transfer.
pub type WireFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + 'a>>;

/// A connected byte stream. At most one `recv` and one `send` are in flight at a time.
pub trait NbdWire {
    /// Receives into the front of `buf`, and returns `buf` and the number of bytes; 0 is the end of the stream.
    /// Dropping the future loses the received bytes.
    fn recv(&self, buf: BufMut) -> WireFuture<'_, (BufMut, usize)>;

    /// Sends all of `bufs`, in order.
    fn send(&self, bufs: Vec<Buf>) -> WireFuture<'_, ()>;

    /// Ends both directions at once. A pending or later `recv` or `send` ends soon, with any result.
    fn shutdown(&self);
}
