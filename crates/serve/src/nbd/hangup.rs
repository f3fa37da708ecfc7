//! How connections end.

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Hangup {
    /// It asked for it.
    #[error("the client is done")]
    Disconnect,
    /// The stream ended.
    #[error("the client is gone")]
    Gone,
    /// The stream broke.
    #[error("the connection broke: {0}")]
    Wire(std::io::Error),
    /// It kept us waiting.
    #[error("the client took too long")]
    Stalled,
    /// It does not speak the protocol.
    #[error("the client sent {0}")]
    Garbage(&'static str),
    /// The server wants it to end.
    #[error("the server closed it")]
    Stopped,
}
