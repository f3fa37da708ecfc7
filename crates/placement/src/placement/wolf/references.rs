//! Recent reference counts of pages, as many as fit into memory.

use crate::placement::pages::spread;

/// Pages in a set. A new page replaces the least referenced page of its set.
const WAYS: usize = 4;

/// Reference count of a page. A count of 0 means an unused entry.
#[derive(Clone, Copy, Default, Debug)]
struct PageReference {
    page: u64,
    /// Start of the count, in seconds.
    since: u32,
    count: u32,
}

/// References by page, in sets.
#[derive(Debug)]
pub(super) struct ReferenceCounts {
    count: usize,
    /// Sets of entries. Empty before the first reference.
    sets: Vec<[PageReference; WAYS]>,
}

impl ReferenceCounts {
    /// Creates references that take at most `bytes` bytes.
    pub(super) fn new(bytes: usize) -> ReferenceCounts {
        let sets = bytes / size_of::<[PageReference; WAYS]>();
        ReferenceCounts {
            count: sets.max(1),
            sets: Vec::new(),
        }
    }

    /// Returns the count of `page`: 0 if the count began longer than `bar` seconds ago, or is unknown.
    pub(super) fn get(&self, page: u64, seconds: u64, bar: u64) -> u64 {
        let mut set = self.sets.get(self.set(page)).into_iter().flatten();
        let found = set.find(|entry| entry.count > 0 && entry.page == page);
        let counts = found.filter(|entry| !is_over(entry, seconds, bar));
        counts.map_or(0, |entry| u64::from(entry.count))
    }

    /// Counts a reference to `page`; returns the new count.
    pub(super) fn count(&mut self, page: u64, seconds: u64, bar: u64) -> u64 {
        if self.sets.is_empty() {
            self.sets = vec![[PageReference::default(); WAYS]; self.count];
        }
        let set = self.set(page);
        let set = &mut self.sets[set];
        let known = set
            .iter()
            .position(|entry| entry.count > 0 && entry.page == page);
        let worth = |entry: &PageReference| {
            if is_over(entry, seconds, bar) {
                (0, entry.since)
            } else {
                (entry.count, entry.since)
            }
        };
        let least = (0..WAYS).min_by_key(|&way| worth(&set[way])).unwrap_or(0);
        let entry = &mut set[known.unwrap_or(least)];
        if known.is_none() || is_over(entry, seconds, bar) {
            *entry = PageReference {
                page,
                since: seconds.min(u64::from(u32::MAX)) as u32,
                count: 0,
            };
        }
        entry.count = entry.count.saturating_add(1);
        u64::from(entry.count)
    }

    fn set(&self, page: u64) -> usize {
        ((u128::from(spread(page)) * self.count as u128) >> 64) as usize
    }
}

fn is_over(entry: &PageReference, seconds: u64, bar: u64) -> bool {
    seconds.saturating_sub(u64::from(entry.since)) > bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_count_expires_after_the_given_number_of_seconds() {
        let mut references = ReferenceCounts::new(4096);
        assert_eq!(references.get(7, 0, 600), 0);
        assert_eq!(references.count(7, 100, 600), 1);
        assert_eq!(references.count(7, 700, 600), 2);
        assert_eq!(references.get(7, 700, 600), 2);
        assert_eq!(references.get(7, 701, 600), 0);
        assert_eq!(references.count(7, 701, 600), 1);
        assert_eq!(references.get(0, 701, 600), 0);
    }

    #[test]
    fn the_least_referenced_page_is_replaced_by_a_new_page() {
        let mut references = ReferenceCounts::new(0);
        for page in 0..4 {
            (0..=page).for_each(|_| _ = references.count(page, 5, 600));
        }
        references.count(9, 5, 600);
        let counts = [0, 1, 2, 3, 9].map(|page| references.get(page, 5, 600));
        assert_eq!(counts, [0, 2, 3, 4, 1]);
    }
}
