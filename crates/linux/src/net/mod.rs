//! Sockets on the ring: unix and TCP, listening, connecting, sending and receiving.

mod address;
mod listener;
mod stream;

pub use address::{SocketAddress, SocketAddressError};
pub use listener::SocketListener;
pub use stream::SocketStream;
