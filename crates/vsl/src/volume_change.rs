//! A change of the volume that takes effect with a checkpoint.

use forebay_placement::placement::PlacementKind;

use crate::geometry::SegmentLayout;

/// A minimum size of the volume, and a change of its placement.
#[derive(Clone, Copy)]
pub(crate) struct VolumeChange {
    pub(crate) segments: u32,
    pub(crate) space_sectors: u64,
    /// New placement, if it changes.
    pub(crate) placement: Option<PlacementKind>,
}

impl VolumeChange {
    /// Returns the new layout of a volume that had `layout`.
    pub(crate) fn layout(&self, layout: SegmentLayout) -> SegmentLayout {
        layout.of_at_least(self.segments)
    }
}
