//! Selection of the next free segment by the wear of all segments.

use forebay_placement::wear::SegmentWear;

use crate::geometry::SegmentSlot;
use crate::options::SpaceSettings;

/// The free segments that may be queued, and the wear of all segments.
pub(crate) struct FreeSegments {
    wear: SegmentWear,
}

impl FreeSegments {
    /// Creates the state without free segments. `wear` contains the wear of each slot.
    pub(crate) fn new(wear: Vec<u32>, options: &SpaceSettings) -> FreeSegments {
        FreeSegments {
            wear: SegmentWear::new(wear, options.levelling),
        }
    }

    /// Grows to `slots` slots.
    pub(crate) fn grow(&mut self, slots: usize) {
        self.wear.grow(slots);
    }

    /// Counts one more use of a slot.
    pub(crate) fn opened(&mut self, slot: SegmentSlot) {
        self.wear.erased(slot.0);
    }

    /// Returns the numbers of openings of the least and the most worn slot.
    pub(crate) fn extremes(&self) -> (u32, u32) {
        self.wear.extremes().unwrap_or_default()
    }

    /// Returns a segment whose contents should move because its slot is little worn. Only segments for which `may_move`
    /// returns true are considered.
    pub(crate) fn unworn(&mut self, may_move: impl Fn(SegmentSlot) -> bool) -> Option<SegmentSlot> {
        let unworn = self.wear.to_move(|slot| may_move(SegmentSlot(slot)))?;
        self.wear.moving();
        Some(SegmentSlot(unworn))
    }

    /// Adds a free slot.
    pub(crate) fn add(&mut self, slot: SegmentSlot) {
        self.wear.freed(slot.0);
    }

    /// Removes a slot that is no longer free.
    pub(crate) fn remove(&mut self, slot: SegmentSlot) {
        self.wear.take_this(slot.0);
    }

    /// Takes the least worn free slot.
    pub(crate) fn take(&mut self) -> Option<SegmentSlot> {
        self.wear.take().map(SegmentSlot)
    }
}
