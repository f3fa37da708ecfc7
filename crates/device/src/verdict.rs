//! The verdict of a check of devices that are not in use.

use serde::Serialize;

/// Verdict of a check. A later value is worse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckVerdict {
    /// Recovery has nothing to do.
    Clean,
    /// Attaching recovers data.
    Dirty,
    /// The log failed and was abandoned. Its data is on the data device; the log is never applied again.
    Abandoned,
    /// Data is missing or damaged, or the devices do not belong together.
    Damaged,
}
