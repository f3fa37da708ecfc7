//! The NBD server, seen from the client's side of the wire.

mod handshake;
mod hostile;
mod limits;
mod memory;
mod support;
mod tools;
mod transmission;
