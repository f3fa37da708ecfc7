//! The indices of nodes in memory.

/// The index of a node in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct NodeId(u32);

impl NodeId {
    pub(super) const NONE: NodeId = NodeId(u32::MAX);

    pub(super) fn new(index: usize) -> NodeId {
        NodeId(index as u32)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}
