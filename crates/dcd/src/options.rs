//! How an attached volume is to behave.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use forebay_log::Gaps;
use forebay_units::ByteLen;
use serde::Serialize;

/// When a write is acknowledged.
///
/// Each holds at least what those before it do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Acknowledge {
    /// Once it is in the segment buffer: the paper's immediate report. Durable with the next flush.
    #[default]
    Flush,
    /// Once a device has it, perhaps in its cache: it outlives this process, and is durable with the
    /// next flush.
    Handover,
    /// Once it is durable.
    Write,
}

/// A text that says of no moment when a write is acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is none of flush, handover, write")]
pub struct ParseAcknowledgeError(String);

impl fmt::Display for Acknowledge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Acknowledge::Flush => "flush",
            Acknowledge::Handover => "handover",
            Acknowledge::Write => "write",
        })
    }
}

impl FromStr for Acknowledge {
    type Err = ParseAcknowledgeError;

    fn from_str(text: &str) -> Result<Acknowledge, ParseAcknowledgeError> {
        match text {
            "flush" => Ok(Acknowledge::Flush),
            "handover" => Ok(Acknowledge::Handover),
            "write" => Ok(Acknowledge::Write),
            _ => Err(ParseAcknowledgeError(text.into())),
        }
    }
}

/// How an attached volume is to behave.
#[derive(Clone, Copy, Debug)]
pub struct AttachOptions {
    /// When a write is acknowledged.
    pub acknowledge: Acknowledge,
    /// The longest that unflushed data waits before it goes to the log.
    pub max_delay: Duration,
    /// Writes of at least this length go straight to the data device (the paper's direct path). They
    /// keep a disk's semantics, not the log's order.
    pub bypass: Option<ByteLen>,
    /// How long requests wait for a device that fails before they fail too, counted from when the
    /// trouble began. What fails is tried again for as long as it takes.
    pub patience: Duration,
    /// How much memory the map may take for its pieces and marks; less than a MiB
    /// written at once can take counts as that.
    /// What would take more waits, as for room in the log.
    pub map_memory: ByteLen,
    /// Whether the log leaves gaps between records.
    pub gaps: Gaps,
    /// Take up a log in which something durable is missing, up to what is missing.
    pub accept_loss: bool,
    /// Take up a log whose data device was changed without it.
    pub accept_changed: bool,
}

impl AttachOptions {
    /// For a log on the data's own disk. One arm has to do both: each write to the log takes it away from who
    /// reads, and a large write would be written twice. So what nobody flushes is gathered for as long as the paper
    /// lets it wait ("several hundreds of milliseconds", Reliability and File System Integrity), and writes from
    /// the paper's size on go past the log (Writes).
    #[must_use]
    pub fn on_one_disk() -> AttachOptions {
        AttachOptions {
            max_delay: Duration::from_millis(500),
            bypass: Some(ByteLen::kib(64)),
            ..AttachOptions::default()
        }
    }
}

/// For a log on a disk of its own.
impl Default for AttachOptions {
    fn default() -> AttachOptions {
        AttachOptions {
            acknowledge: Acknowledge::Flush,
            max_delay: Duration::from_millis(50),
            bypass: None,
            patience: Duration::from_secs(60),
            map_memory: ByteLen::gib(1),
            gaps: Gaps::default(),
            accept_loss: false,
            accept_changed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_write_is_acknowledged_prints_as_it_reads_and_all_else_is_refused() {
        for text in ["flush", "handover", "write"] {
            assert_eq!(text.parse::<Acknowledge>().unwrap().to_string(), text);
        }
        let error = "never".parse::<Acknowledge>().unwrap_err().to_string();
        assert_eq!(error, "\"never\" is none of flush, handover, write");
    }
}
