//! The state of ranges of an export: the answers to `BLOCK_STATUS`.

use std::ops::Range;

/// A range of an export in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusExtent {
    /// Length in bytes: not zero, whole blocks.
    pub len: u64,
    /// True if no space is allocated for the range.
    pub hole: bool,
    /// True if the range reads as zeroes.
    pub zero: bool,
    /// Value in the context that [`BlockStatus::context`] names; without meaning if the context is missing.
    pub value: u32,
}

/// Returns the state of ranges of an export. Answers from memory, at once.
pub trait BlockStatus {
    /// Returns the name (`NAMESPACE:NAME`) of an additional metadata context, for states that the protocol's
    /// `base:allocation` cannot express. The context of this name defines the meaning of [`StatusExtent::value`].
    fn context(&self) -> Option<&str> {
        None
    }

    /// Returns consecutive extents from `range.start` on, at least one. They may end before `range` does or reach past
    /// it, and need not be more than `max`.
    fn status(&self, range: Range<u64>, max: usize) -> Vec<StatusExtent>;
}

/// The block status of an export without status information: everything is allocated and holds data.
pub(super) struct AllData;

impl BlockStatus for AllData {
    fn status(&self, range: Range<u64>, _max: usize) -> Vec<StatusExtent> {
        vec![StatusExtent {
            len: range.end - range.start,
            hole: false,
            zero: false,
            value: 0,
        }]
    }
}
