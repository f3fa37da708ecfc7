//! Options of an attached volume.

use std::time::Duration;

use forebay_device::AckMode;
use forebay_ring_log::OffsetPolicy;
use forebay_units::ByteLen;

/// Options of an attached volume.
#[derive(Clone, Copy, Debug)]
pub struct AttachOptions {
    /// Moment at which a write is acknowledged.
    pub acknowledge: AckMode,
    /// Maximum time that unflushed data waits before it is written to the log.
    pub max_delay: Duration,
    /// Minimum length of writes that go directly to the data device (the paper's direct path). Such writes have a
    /// disk's semantics, without the log's ordering.
    pub bypass: Option<ByteLen>,
    /// Time that requests wait for a failing device before they fail too, counted from the beginning of the fault. The
    /// failed work is retried for as long as necessary.
    pub patience: Duration,
    /// Memory that the map may take for its fragments and marks. Smaller values are raised to the memory that one write
    /// of 1 MiB can take. Writes beyond the limit wait, in the same way as for free space in the log.
    pub map_memory: ByteLen,
    /// Rotational offsets between records of the log.
    pub gaps: OffsetPolicy,
    /// Opens a log in which a durable record is missing, up to this record.
    pub accept_loss: bool,
    /// Opens a log whose data device was changed without the cache.
    pub accept_changed: bool,
}

impl AttachOptions {
    /// Returns options for a log on the data's own disk. One actuator has to do both: each write to the log takes it
    /// away from readers, and a large write would be written twice. So unflushed data is gathered for as long as the
    /// paper lets it wait ("several hundreds of milliseconds", section Reliability and File System Integrity). Writes
    /// from the paper's size on bypass the log (section Writes).
    #[must_use]
    pub fn on_one_disk() -> AttachOptions {
        AttachOptions {
            max_delay: Duration::from_millis(500),
            bypass: Some(ByteLen::kib(64)),
            ..AttachOptions::default()
        }
    }
}

/// Options for a log on a disk of its own.
impl Default for AttachOptions {
    fn default() -> AttachOptions {
        AttachOptions {
            acknowledge: AckMode::Memory,
            max_delay: Duration::from_millis(50),
            bypass: None,
            patience: Duration::from_secs(60),
            map_memory: ByteLen::gib(1),
            gaps: OffsetPolicy::default(),
            accept_loss: false,
            accept_changed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgement_modes_print_and_parse_and_other_text_is_rejected() {
        for text in ["memory", "device", "durable"] {
            assert_eq!(text.parse::<AckMode>().unwrap().to_string(), text);
        }
        let error = "never".parse::<AckMode>().unwrap_err().to_string();
        assert_eq!(error, "\"never\" is not one of memory, device, durable");
    }
}
