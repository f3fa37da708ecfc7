//! The limits of a server on its clients.

use std::time::Duration;

use forebay_frontend::requests::RequestLoad;

/// Limits on the resources of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientLimits {
    /// Concurrent connections. The number of memory reserves (2.6 MiB each) limits them further. A connection beyond
    /// the limit is closed at once. A client may be idle for ever after the handshake, so the permissions of the socket
    /// must restrict the clients that can connect.
    pub connections: usize,
    /// Connections in the handshake phase, at most half of all. A new connection replaces the oldest of these.
    pub handshakes: usize,
    /// Time limit of the handshake.
    pub handshake_time: Duration,
    /// Time limit for a client that has begun to send a request and sends nothing, and for a client that does not
    /// receive its reply. Between requests a client may be idle for ever.
    pub stall_time: Duration,
    /// Requests under way on a connection. The server does not read further requests.
    pub requests_in_flight: u32,
    /// Data of these requests, in bytes. [`RequestMemory`](forebay_frontend::requests::RequestMemory) bounds the total
    /// of all connections.
    pub bytes_in_flight: u64,
}

impl ClientLimits {
    /// Returns the limit on the requests under way of a connection.
    pub(super) fn under_way(&self) -> RequestLoad {
        RequestLoad {
            requests: self.requests_in_flight,
            bytes: self.bytes_in_flight,
        }
    }
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            connections: 64,
            handshakes: 16,
            handshake_time: Duration::from_secs(30),
            stall_time: Duration::from_secs(60),
            requests_in_flight: 256,
            bytes_in_flight: 64 << 20,
        }
    }
}
