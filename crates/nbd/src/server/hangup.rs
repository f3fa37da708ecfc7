//! The ends of connections.

/// The reason for the end of a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum HangupReason {
    /// The client asked to disconnect.
    #[error("the client disconnected")]
    Disconnect,
    /// The stream ended.
    #[error("the connection ended without a disconnect request")]
    Gone,
    /// The stream broke.
    #[error("the connection broke: {0}")]
    Wire(std::io::Error),
    /// The client exceeded a time limit.
    #[error("the client took too long")]
    Stalled,
    /// The client violated the protocol.
    #[error("the client sent {0}")]
    Garbage(&'static str),
    /// The server is stopping this connection.
    #[error("the server closed it")]
    Stopped,
}
