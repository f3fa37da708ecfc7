//! Directory entries that were recently read or written, by sector. With them, a file that was just made can be removed
//! without reading the device.
//!
//! Invariant: an entry here equals the entry in the space, unless the holder of the directory's lock is about to
//! replace it there. So an entry is not kept if any entry changed while it was being read.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::format::DirectoryEntry;

/// The most entries in each half.
const HALF: usize = 1 << 15;

/// Cached entries in two halves; the older half is dropped at once.
#[derive(Default)]
pub(crate) struct RecentEntries {
    halves: RefCell<[BTreeMap<u64, DirectoryEntry>; 2]>,
    changes: Cell<u64>,
}

/// The change counter when a read began.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadStart(u64);

impl RecentEntries {
    /// Returns the entry in a sector, if it is cached.
    pub(crate) fn get(&self, sector: u64) -> Option<DirectoryEntry> {
        let mut halves = self.halves.borrow_mut();
        if let Some(entry) = halves[0].get(&sector) {
            return Some(entry.clone());
        }
        let entry = halves[1].remove(&sector)?;
        insert(&mut halves, sector, entry.clone());
        Some(entry)
    }

    /// Returns the change counter. Must be called before reading an entry that will be kept.
    pub(crate) fn since(&self) -> ReadStart {
        ReadStart(self.changes.get())
    }

    /// Keeps an entry that was read, unless any entry changed since the read began.
    pub(crate) fn keep(&self, since: ReadStart, sector: u64, entry: &DirectoryEntry) {
        if since == self.since() {
            insert(&mut self.halves.borrow_mut(), sector, entry.clone());
        }
    }

    /// Drops the entry in a sector, before it is changed or removed.
    pub(crate) fn forget(&self, sector: u64) {
        let mut halves = self.halves.borrow_mut();
        halves.iter_mut().for_each(|half| {
            half.remove(&sector);
        });
        self.changes.set(self.changes.get() + 1);
    }

    /// Replaces the entry in a sector after a change.
    pub(crate) fn changed(&self, sector: u64, entry: DirectoryEntry) {
        self.forget(sector);
        insert(&mut self.halves.borrow_mut(), sector, entry);
    }
}

fn insert(halves: &mut [BTreeMap<u64, DirectoryEntry>; 2], sector: u64, entry: DirectoryEntry) {
    if halves[0].len() >= HALF {
        halves.swap(0, 1);
        halves[0].clear();
    }
    halves[0].insert(sector, entry);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::FileKind;

    fn entry(file: u64) -> DirectoryEntry {
        DirectoryEntry {
            file,
            generation: 1,
            kind: FileKind::Regular,
            name: file.to_string().into_bytes(),
        }
    }

    #[test]
    fn an_entry_read_before_a_change_is_not_cached() {
        let recent = RecentEntries::default();
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
    fn the_cache_keeps_its_maximum_of_entries_and_evicts_entries_in_use_last() {
        let recent = RecentEntries::default();
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
