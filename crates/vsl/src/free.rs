//! Which free segment is used next, by how worn all are.

use forebay_placement::wear::Wear;

use crate::geometry::Slot;
use crate::options::Options;

/// The free segments that may be queued, and how worn all segments are.
pub(crate) struct Free {
    wear: Wear,
}

impl Free {
    /// No free segment yet; segments are as worn as `wear` says.
    pub(crate) fn new(wear: Vec<u32>, options: &Options) -> Free {
        Free {
            wear: Wear::new(wear, options.levelling),
        }
    }

    /// There are `slots` slots now.
    pub(crate) fn grow(&mut self, slots: usize) {
        self.wear.grow(slots);
    }

    /// A slot is filled once more.
    pub(crate) fn opened(&mut self, slot: Slot) {
        self.wear.erased(slot.0);
    }

    /// How often the least and the most worn slot were opened.
    pub(crate) fn extremes(&self) -> (u32, u32) {
        self.wear.extremes().unwrap_or_default()
    }

    /// A segment of those that may move whose contents should move because its slot is worn so little.
    pub(crate) fn unworn(&mut self, may_move: impl Fn(Slot) -> bool) -> Option<Slot> {
        let unworn = self.wear.to_move(|slot| may_move(Slot(slot)))?;
        self.wear.moving();
        Some(Slot(unworn))
    }

    /// A slot is free.
    pub(crate) fn add(&mut self, slot: Slot) {
        self.wear.freed(slot.0);
    }

    /// A slot is no longer free.
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.wear.take_this(slot.0);
    }

    /// Takes the least worn free slot.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        self.wear.take().map(Slot)
    }
}
