//! What is live, counted by a walk over the map.

use std::collections::BTreeMap;

use forebay_units::SegmentSeq;

/// What a walk over the map counted.
#[derive(Default)]
pub(crate) struct Counted {
    /// Sectors and units (`weight.rs`) that are live, by the numbers of their segments.
    pub(crate) segments: BTreeMap<SegmentSeq, (u64, u64)>,
    /// Sectors of nodes among them.
    pub(crate) nodes: u64,
    /// Sectors, extents and nodes of the whole map.
    pub(crate) totals: (u64, u64, u64),
}
