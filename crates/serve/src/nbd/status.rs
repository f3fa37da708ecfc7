//! What is known about ranges of an export besides their bytes: the answers to BLOCK_STATUS.

use std::ops::Range;

/// A stretch of an export in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Its length in bytes: not zero, whole blocks.
    pub len: u64,
    /// True if no space is allocated for it.
    pub hole: bool,
    /// True if it reads as zeroes.
    pub zero: bool,
    /// Its value in the context that [`BlockStatus::context`] names; of no meaning without one.
    pub value: u32,
}

/// Tells the state of ranges of an export. Answers from memory, at once.
pub trait BlockStatus {
    /// The name (`NAMESPACE:NAME`) of a metadata context in which whoever answers says more than the
    /// protocol's own `base:allocation` can: what [`Extent::value`] means is for that name to tell.
    fn context(&self) -> Option<&str> {
        None
    }

    /// The extents from `range.start` on, one after the other without a gap. There is at least one;
    /// they may end before `range` does or reach past it, and need not be more than `max`.
    fn status(&self, range: Range<u64>, max: usize) -> Vec<Extent>;
}

/// The answer where nobody can tell: everything is allocated and holds data.
pub(super) struct AllData;

impl BlockStatus for AllData {
    fn status(&self, range: Range<u64>, _max: usize) -> Vec<Extent> {
        vec![Extent {
            len: range.end - range.start,
            hole: false,
            zero: false,
            value: 0,
        }]
    }
}
