//! Free segments that are not on the runway, those of them that are discarded first, and how worn all are.

use std::collections::BTreeSet;

use forebay_placement::wear::Wear;

use crate::geometry::Slot;
use crate::options::Options;

/// Free segments beside those on the runway.
pub(crate) struct Free {
    /// Those that may be put on the runway at once are free there.
    wear: Wear,
    /// Those that are to be discarded before that, and how many are being discarded.
    stale: BTreeSet<Slot>,
    discarding: usize,
    discards: bool,
}

impl Free {
    /// None, of segments that are so worn.
    pub(crate) fn new(wear: Vec<u32>, options: &Options) -> Free {
        Free {
            wear: Wear::new(wear, options.levelling),
            stale: BTreeSet::new(),
            discarding: 0,
            discards: options.discard,
        }
    }

    /// A segment is filled once more.
    pub(crate) fn opened(&mut self, slot: Slot) {
        self.wear.erased(slot.0);
    }

    /// How often the least and the most worn segment were opened.
    pub(crate) fn extremes(&self) -> (u32, u32) {
        self.wear.extremes().unwrap_or_default()
    }

    /// A segment whose contents should move because it is worn so little, of those that may.
    pub(crate) fn unworn(&mut self, may_move: impl Fn(Slot) -> bool) -> Option<Slot> {
        let unworn = self.wear.to_move(|slot| may_move(Slot(slot)))?;
        self.wear.moving();
        Some(Slot(unworn))
    }

    /// All of them.
    pub(crate) fn len(&self) -> usize {
        self.usable() + self.stale.len() + self.discarding
    }

    /// Those that may be put on the runway at once.
    pub(crate) fn usable(&self) -> usize {
        self.wear.free()
    }

    /// One got free.
    pub(crate) fn add(&mut self, slot: Slot) {
        match self.discards {
            true => {
                self.stale.insert(slot);
            }
            false => self.add_usable(slot),
        }
    }

    /// One may be put on the runway as it is.
    pub(crate) fn add_usable(&mut self, slot: Slot) {
        self.wear.freed(slot.0);
    }

    /// One is not free.
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.wear.take_this(slot.0);
    }

    /// Takes at most `most` that may be used, least worn first.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Slot> {
        let least_worn = std::iter::from_fn(|| self.wear.take());
        least_worn.take(most).map(Slot).collect()
    }

    /// Takes at most `most` that are to be discarded and that nobody reads, in order.
    pub(crate) fn take_stale(&mut self, most: usize, unread: impl Fn(Slot) -> bool) -> Vec<Slot> {
        let stale = self.stale.iter().copied();
        let taken: Vec<Slot> = stale.filter(|slot| unread(*slot)).take(most).collect();
        for slot in &taken {
            self.stale.remove(slot);
        }
        self.discarding += taken.len();
        taken
    }

    /// These are discarded.
    pub(crate) fn discarded(&mut self, slots: &[Slot]) {
        self.discarding -= slots.len();
        slots.iter().for_each(|slot| self.add_usable(*slot));
    }
}
