//! Entries of directories that were read or written of late, by where they are: to remove what was just made needs no disk.
//!
//! Invariant: what is here is what is in the space, or is about to be replaced there by who holds the directory's lock. So nothing is put here
//! that was read while some entry changed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::format::Entry;

/// Entries that one of the two halves has.
const HALF: usize = 1 << 15;

/// Entries, the older half of which is dropped at once.
#[derive(Default)]
pub(crate) struct Recent {
    halves: RefCell<[BTreeMap<u64, Entry>; 2]>,
    changes: Cell<u64>,
}

/// When something was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Since(u64);

impl Recent {
    /// The entry in a sector, if it is known.
    pub(crate) fn get(&self, sector: u64) -> Option<Entry> {
        let mut halves = self.halves.borrow_mut();
        if let Some(entry) = halves[0].get(&sector) {
            return Some(entry.clone());
        }
        let entry = halves[1].remove(&sector)?;
        insert(&mut halves, sector, entry.clone());
        Some(entry)
    }

    /// To be called before something is read that is to be kept.
    pub(crate) fn since(&self) -> Since {
        Since(self.changes.get())
    }

    /// Keeps what was read.
    pub(crate) fn keep(&self, since: Since, sector: u64, entry: &Entry) {
        if since == self.since() {
            insert(&mut self.halves.borrow_mut(), sector, entry.clone());
        }
    }

    /// The entry in a sector is about to change, or to go.
    pub(crate) fn forget(&self, sector: u64) {
        let mut halves = self.halves.borrow_mut();
        halves.iter_mut().for_each(|half| {
            half.remove(&sector);
        });
        self.changes.set(self.changes.get() + 1);
    }

    /// It has changed, and is this.
    pub(crate) fn changed(&self, sector: u64, entry: Entry) {
        self.forget(sector);
        insert(&mut self.halves.borrow_mut(), sector, entry);
    }
}

fn insert(halves: &mut [BTreeMap<u64, Entry>; 2], sector: u64, entry: Entry) {
    if halves[0].len() >= HALF {
        halves.swap(0, 1);
        halves[0].clear();
    }
    halves[0].insert(sector, entry);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Kind;

    fn entry(file: u64) -> Entry {
        Entry {
            file,
            generation: 1,
            kind: Kind::Regular,
            name: file.to_string().into_bytes(),
        }
    }

    #[test]
    fn what_was_read_before_something_changed_is_not_kept() {
        let recent = Recent::default();
        let since = recent.since();
        recent.keep(since, 7, &entry(1));
        assert_eq!(recent.get(7), Some(entry(1)));
        recent.changed(7, entry(2));
        recent.keep(since, 7, &entry(1));
        assert_eq!(recent.get(7), Some(entry(2)));
        recent.forget(7);
        recent.keep(since, 7, &entry(1));
        assert_eq!(recent.get(7), None);
    }

    #[test]
    fn as_many_as_are_allowed_are_kept_and_those_in_use_longest() {
        let recent = Recent::default();
        let count = 3 * HALF as u64;
        for sector in 0..count {
            recent.keep(recent.since(), sector, &entry(sector));
            assert_eq!(recent.get(0), Some(entry(0)));
        }
        let kept = (0..count).filter(|sector| {
            let halves = recent.halves.borrow();
            halves.iter().any(|half| half.contains_key(sector))
        });
        let kept = kept.count();
        assert!((HALF..=2 * HALF).contains(&kept), "{kept}");
    }
}
