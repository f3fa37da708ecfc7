//! Why a device that was left cannot be taken up.

/// What about a device that a server left does not fit the volume, or the way it is to be served. Each
/// says what to do, where there is something.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfit {
    /// It has not the features that the devices of this program have.
    #[error("it was made by another program, or another version of this one")]
    Foreign,
    /// What its users were told is written would not survive its server.
    #[error(
        "what is acknowledged with durability \"flush\" would be lost to its users, unnoticed, if the \
         daemon were killed again; attach it without that"
    )]
    Loses,
    /// It is longer than the volume, in bytes.
    #[error("it has {was} bytes, and the volume only {is}")]
    Length {
        /// As it was made.
        was: u64,
        /// Of the volume.
        is: u64,
    },
    /// Other logical blocks, in bytes.
    #[error("its blocks have {was} bytes, and the volume's {is}")]
    Blocks {
        /// As it was made.
        was: u64,
        /// Of the volume.
        is: u64,
    },
    /// Its requests are longer than what is served at once.
    #[error("its requests have up to {sectors} sectors")]
    Requests {
        /// The largest, of 512 bytes each.
        sectors: u32,
    },
    /// Its users have been told that what is written is durable, and it is not.
    #[error(
        "it was made with durability \"write\", so its users send no flushes; attach it so again"
    )]
    NoFlushes,
}
