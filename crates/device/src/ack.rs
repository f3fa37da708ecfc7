//! The moment at which a write is acknowledged: a choice that every layer offers.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Moment at which a write is acknowledged.
///
/// Each value guarantees at least as much as the values before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AckMode {
    /// As soon as the write is in memory, in a segment buffer: the paper's immediate report. Durable with the next flush.
    #[default]
    Memory,
    /// As soon as a device has the write, possibly in its cache: the write survives the end of this process, and is
    /// durable with the next flush.
    Device,
    /// As soon as the write is durable.
    Durable,
}

/// A text that does not name a value of [`AckMode`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not one of memory, device, durable")]
pub struct ParseAckModeError(String);

impl fmt::Display for AckMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AckMode::Memory => "memory",
            AckMode::Device => "device",
            AckMode::Durable => "durable",
        })
    }
}

impl FromStr for AckMode {
    type Err = ParseAckModeError;

    fn from_str(text: &str) -> Result<AckMode, ParseAckModeError> {
        match text {
            "memory" => Ok(AckMode::Memory),
            "device" => Ok(AckMode::Device),
            "durable" => Ok(AckMode::Durable),
            _ => Err(ParseAckModeError(text.into())),
        }
    }
}
