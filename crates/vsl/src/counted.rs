//! Counts of live sectors, from a walk over the map.

use std::collections::BTreeMap;

use forebay_units::SegmentSeq;

/// The counts of a walk over the map.
#[derive(Default)]
pub(crate) struct MapCounts {
    /// Live sectors and units (`weight.rs`), by the numbers of their segments.
    pub(crate) segments: BTreeMap<SegmentSeq, (u64, u64)>,
    /// Sectors of nodes among the live sectors.
    pub(crate) nodes: u64,
    /// Sectors, extents and nodes of the whole map.
    pub(crate) totals: (u64, u64, u64),
}
