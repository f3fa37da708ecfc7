//! Free segments that are not on the runway, and those of them that are discarded first.

use std::collections::BTreeSet;

use crate::geometry::Slot;

/// Free segments beside those on the runway.
#[derive(Default)]
pub(crate) struct Free {
    /// Those that may be put on the runway at once, by their wear.
    usable: BTreeSet<(u32, Slot)>,
    /// Those that are to be discarded before that, and how many are being discarded.
    stale: BTreeSet<Slot>,
    discarding: usize,
    discards: bool,
}

impl Free {
    /// All of them.
    pub(crate) fn len(&self) -> usize {
        self.usable.len() + self.stale.len() + self.discarding
    }

    /// Those that may be put on the runway at once.
    pub(crate) fn usable(&self) -> usize {
        self.usable.len()
    }

    /// One got free.
    pub(crate) fn add(&mut self, wear: u32, slot: Slot) {
        match self.discards {
            true => {
                self.stale.insert(slot);
            }
            false => self.add_usable(wear, slot),
        }
    }

    /// One may be put on the runway as it is.
    pub(crate) fn add_usable(&mut self, wear: u32, slot: Slot) {
        self.usable.insert((wear, slot));
    }

    /// One is not free.
    pub(crate) fn remove(&mut self, wear: u32, slot: Slot) {
        self.usable.remove(&(wear, slot));
    }

    /// Takes at most `most` that may be used, least worn first.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Slot> {
        let least_worn = std::iter::from_fn(|| self.usable.pop_first());
        least_worn.take(most).map(|(_, slot)| slot).collect()
    }

    /// From now on what gets free is discarded before it is used again.
    pub(crate) fn discard_first(&mut self) {
        self.discards = true;
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
    pub(crate) fn discarded(&mut self, slots: &[Slot], wear: impl Fn(Slot) -> u32) {
        self.discarding -= slots.len();
        for slot in slots {
            self.add_usable(wear(*slot), *slot);
        }
    }
}
