//! Options that several kinds of volume have.

use forebay_device::AckMode;
use forebay_units::{ByteLen, TimeSpan};

use super::OptionKey;

/// Moment at which a write is acknowledged.
pub(crate) static ACK: OptionKey<AckMode> = OptionKey::new(
    "ack",
    "WHEN",
    "Acknowledgement of a write: memory (at once; a flush makes the write durable, as with any disk that has a write \
     cache), device (when the device has the data, which then survives the daemon; a flush makes it durable) or durable \
     (when it is durable). With memory, a ublk or nbd device ends with its daemon.",
)
.choices(&["memory", "device", "durable"])
.formerly(
    "durability",
    &[("flush", "memory"), ("handover", "device"), ("write", "durable")],
);

/// Default of [`ACK`], in words.
pub(crate) const ACK_DEFAULT: &str =
    "device for a ublk or nbd device, which another daemon can take over; else memory";

/// Longest time that unflushed data may wait.
pub(crate) static MAX_DELAY: OptionKey<TimeSpan> = OptionKey::new(
    "max-delay",
    "TIME",
    "Maximum time that unflushed data may wait before it is written.",
);

/// Memory limit of the map.
pub(crate) static MAP_MEMORY: OptionKey<ByteLen> = OptionKey::new(
    "map-memory",
    "SIZE",
    "Maximum memory for the map of the data.",
);

/// Segment size of a log or of a log-structured volume to be created.
pub(crate) static SEGMENT: OptionKey<ByteLen> = OptionKey::new(
    "segment",
    "SIZE",
    "The segment size of the log or of a log-structured volume: a power of two from 128KiB to 64MiB.",
);
