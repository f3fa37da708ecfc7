//! Sockets on the ring: unix and TCP, listening, connecting, sending and receiving.

mod address;
mod listener;
mod stream;

pub use address::{Address, ParseAddressError};
pub use listener::Listener;
pub use stream::Stream;
