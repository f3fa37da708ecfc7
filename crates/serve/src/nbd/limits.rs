//! What the server lets its clients take up.

use std::time::Duration;

use crate::requests::Load;

/// What clients may take up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at a time, and no more than the memory has reserves for (2.6 MiB each). The next is
    /// closed at once. A client that has come this far may be idle for ever, so who may connect at all
    /// is for the socket's permissions to say.
    pub connections: usize,
    /// Of those, how many may still be haggling, at most half. The next takes the place of the oldest.
    pub handshakes: usize,
    /// How long a client may haggle.
    pub handshake_time: Duration,
    /// How long a client that began to send a request may send nothing, and how long it may leave a
    /// reply unfetched. Between requests it may be idle for ever.
    pub stall_time: Duration,
    /// Requests under way on a connection. More are not read.
    pub requests_in_flight: u32,
    /// Their data, in bytes. What all connections hold together is for their [`crate::Memory`] to bound.
    pub bytes_in_flight: u64,
}

impl Limits {
    /// What a connection may have under way.
    pub(super) fn under_way(&self) -> Load {
        Load {
            requests: self.requests_in_flight,
            bytes: self.bytes_in_flight,
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 64,
            handshakes: 16,
            handshake_time: Duration::from_secs(30),
            stall_time: Duration::from_secs(60),
            requests_in_flight: 256,
            bytes_in_flight: 64 << 20,
        }
    }
}
