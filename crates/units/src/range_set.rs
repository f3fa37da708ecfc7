//! A set of numbers, as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint, non-empty ranges that do not touch: a map from start to end.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    /// Adds a range.
    pub fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        while let Some((at, to)) = self.0.range(..=end).next_back()
            && *to >= start
        {
            (start, end) = (start.min(*at), end.max(*to));
            let at = *at;
            self.0.remove(&at);
        }
        self.0.insert(start, end);
    }

    /// Removes a range.
    pub fn remove(&mut self, range: Range<u64>) {
        for part in self.parts(range.clone()) {
            let found = self.0.range(..=part.start).next_back();
            let (start, end) = found.map(|(at, to)| (*at, *to)).expect("it has the part");
            self.0.remove(&start);
            if start < part.start {
                self.0.insert(start, part.start);
            }
            if part.end < end {
                self.0.insert(part.end, end);
            }
        }
    }

    /// Returns the parts of `range` that are in the set, in order.
    pub fn parts(&self, range: Range<u64>) -> Vec<Range<u64>> {
        if range.start >= range.end {
            return Vec::new();
        }
        let before = self.0.range(..range.start).next_back();
        let all = before.into_iter().chain(self.0.range(range.clone()));
        let cut = all.map(|(at, to)| (*at).max(range.start)..(*to).min(range.end));
        cut.filter(|part| part.start < part.end).collect()
    }

    /// Returns true if a part of `range` is in the set.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        let last = self.0.range(..range.end).next_back();
        range.start < range.end && last.is_some_and(|(_, to)| *to > range.start)
    }

    /// Iterates over the ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(at, to)| *at..*to)
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of ranges.
    pub fn ranges(&self) -> usize {
        self.0.len()
    }

    /// Returns the sum of the lengths of the ranges.
    pub fn total(&self) -> u64 {
        self.iter().map(|range| range.end - range.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_range_set_contains_the_inserted_and_not_removed_numbers(
            changes in prop::collection::vec((any::<bool>(), 0..64_u64, 0..64_u64), 0..40),
        ) {
            let (mut ranges, mut model) = (RangeSet::default(), [false; 64]);
            for (puts_in, start, len) in changes {
                let range = start..(start + len).min(64);
                model[range.start as usize..range.end as usize].fill(puts_in);
                if puts_in {
                    ranges.insert(range.clone());
                } else {
                    ranges.remove(range.clone());
                }
                let set: Vec<u64> = ranges.iter().flatten().collect();
                let expected: Vec<u64> = (0..64).filter(|n| model[*n as usize]).collect();
                prop_assert_eq!(&set, &expected);
                prop_assert_eq!(ranges.total(), expected.len() as u64);
                prop_assert_eq!(ranges.is_empty(), expected.is_empty());
                let ends: Vec<u64> = ranges.iter().flat_map(|r| [r.start, r.end]).collect();
                prop_assert!(ends.is_sorted_by(|a, b| a < b), "{:?}", ends);
                prop_assert_eq!(ranges.ranges(), ends.len() / 2);
                let inside = |n: &u64| range.contains(n);
                let parts: Vec<u64> = ranges.parts(range.clone()).into_iter().flatten().collect();
                let expected: Vec<u64> = expected.into_iter().filter(inside).collect();
                prop_assert_eq!(ranges.touches(&range), !expected.is_empty());
                prop_assert_eq!(parts, expected);
            }
        }
    }
}
