//! The mismatches that prevent the recovery of a leftover device.

/// A mismatch between a leftover device and the volume or its requested options. The texts include a remedy, where
/// possible.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LeftoverMismatch {
    /// The device lacks the features of this program's devices.
    #[error("it was made by another program, or another version of this one")]
    Foreign,
    /// The acknowledged writes of its users would not survive the server.
    #[error(
        "data acknowledged with --ack memory would be lost silently if the daemon were killed again; attach \
         it with another --ack"
    )]
    Loses,
    /// The device is longer than the volume.
    #[error("it has {was} bytes, and the volume only {is}")]
    Length {
        /// Length of the device, in bytes.
        was: u64,
        /// Length of the volume, in bytes.
        is: u64,
    },
    /// The logical block sizes differ.
    #[error("its blocks have {was} bytes, and the volume's {is}")]
    Blocks {
        /// Block size of the device, in bytes.
        was: u64,
        /// Block size of the volume, in bytes.
        is: u64,
    },
    /// The device's requests are longer than the server allows.
    #[error("its requests have up to {sectors} sectors")]
    Requests {
        /// The largest request, in sectors of 512 bytes.
        sectors: u32,
    },
    /// The device reports completed writes as durable, but the volume's writes are volatile.
    #[error(
        "it was made with --ack durable, so its users send no flushes; attach it with --ack durable \
         again"
    )]
    NoFlushes,
}
