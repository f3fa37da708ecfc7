//! Workloads of a volume: scripts made from a seed.

pub mod journal;
pub mod mix;
pub mod recorded;

use std::ops::Range;

use crate::history::ScriptAction;

/// Requests of one writer in one incarnation.
#[derive(Clone, Debug, Default)]
pub struct WriterScript {
    /// Actions in this order. Each one starts when the one before is done.
    pub actions: Vec<ScriptAction>,
    /// Conditions that a reader of its own data structures can check.
    pub rules: Vec<journal::CommitRule>,
}

/// Limits of a script.
#[derive(Clone, Debug)]
pub struct ScriptBounds {
    /// Region of the writer, in bytes.
    pub region: Range<u64>,
    /// Length of the volume, in bytes. Reads may go anywhere.
    pub volume: u64,
    /// Unit of all ranges, in bytes.
    pub block: u64,
}

impl ScriptBounds {
    /// Returns the blocks around a range, inside the region.
    pub fn align(&self, range: Range<u64>) -> Range<u64> {
        let end = range.end.next_multiple_of(self.block).min(self.region.end);
        let start = range.start / self.block * self.block;
        start.max(self.region.start)..end
    }
}
