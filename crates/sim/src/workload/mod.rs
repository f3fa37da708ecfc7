//! What is asked of a volume: scripts, made from a seed.

pub mod journal;
pub mod mix;
pub mod recorded;

use std::ops::Range;

use crate::history::Action;

/// What one lane does in one life.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// In this order, each when the one before is done.
    pub actions: Vec<Action>,
    /// What a reader of its own data structures could tell to be broken.
    pub rules: Vec<journal::Rule>,
}

/// The limits a script keeps.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The lane's region, in bytes.
    pub region: Range<u64>,
    /// The volume's length, in bytes: reads go anywhere.
    pub volume: u64,
    /// Everything is in multiples of this.
    pub block: u64,
}

impl Bounds {
    /// The blocks around a range, inside the region.
    pub fn align(&self, range: Range<u64>) -> Range<u64> {
        let end = range.end.next_multiple_of(self.block).min(self.region.end);
        let start = range.start / self.block * self.block;
        start.max(self.region.start)..end
    }
}
