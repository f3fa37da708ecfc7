//! A set of bytes, as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges, none empty and no two side by side: by the start, the end.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(crate) fn insert(&mut self, range: Range<u64>) {
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

    pub(crate) fn remove(&mut self, range: Range<u64>) {
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

    /// What of `range` is in the set, in order.
    pub(crate) fn parts(&self, range: Range<u64>) -> Vec<Range<u64>> {
        if range.start >= range.end {
            return Vec::new();
        }
        let before = self.0.range(..range.start).next_back();
        let all = before.into_iter().chain(self.0.range(range.clone()));
        let cut = all.map(|(at, to)| (*at).max(range.start)..(*to).min(range.end));
        cut.filter(|part| part.start < part.end).collect()
    }

    pub(crate) fn touches(&self, range: &Range<u64>) -> bool {
        let last = self.0.range(..range.end).next_back();
        range.start < range.end && last.is_some_and(|(_, to)| *to > range.start)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(at, to)| *at..*to)
    }
}

/// Cuts `range` at those of `cuts` that lie within it.
pub(crate) fn cut(range: Range<u64>, mut cuts: Vec<u64>) -> Vec<Range<u64>> {
    cuts.retain(|cut| range.contains(cut));
    cuts.extend([range.start, range.end]);
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|ends| ends[0]..ends[1]).collect()
}

/// Cuts `range` where any of `sets` begins or ends.
pub(crate) fn cut_by<'a>(
    range: Range<u64>,
    sets: impl Iterator<Item = &'a Ranges>,
) -> Vec<Range<u64>> {
    let parts = sets.flat_map(|set| set.parts(range.clone()));
    let ends = parts.flat_map(|part| [part.start, part.end]).collect();
    cut(range, ends)
}

#[cfg(test)]
mod tests {
    use forebay_rng::Rng;

    use super::*;

    #[test]
    fn ranges_are_the_set_of_what_was_put_in_and_not_taken_out() {
        for seed in 0..200 {
            let rng = Rng::new(seed);
            let (mut ranges, mut model) = (Ranges::default(), [false; 64]);
            for _ in 0..40 {
                let start = rng.below(64);
                let range = start..start + rng.below(65 - start);
                let put_in = rng.coin();
                model[range.start as usize..range.end as usize].fill(put_in);
                match put_in {
                    true => ranges.insert(range.clone()),
                    false => ranges.remove(range.clone()),
                }
                let set: Vec<u64> = ranges.iter().flatten().collect();
                let expected: Vec<u64> = (0..64).filter(|n| model[*n as usize]).collect();
                assert_eq!(set, expected);
                let ends: Vec<u64> = ranges.iter().flat_map(|r| [r.start, r.end]).collect();
                assert!(ends.is_sorted_by(|a, b| a < b), "{ends:?}");
                let inside = |n: &u64| range.contains(n);
                let parts: Vec<u64> = ranges.parts(range.clone()).into_iter().flatten().collect();
                let expected: Vec<u64> = expected.into_iter().filter(inside).collect();
                assert_eq!(ranges.touches(&range), !expected.is_empty());
                assert_eq!(parts, expected);
            }
        }
    }

    #[test]
    fn a_range_is_cut_where_it_is_told_and_nowhere_else() {
        assert_eq!(cut(4..8, vec![9, 6, 4, 6, 8]), [4..6, 6..8]);
        assert_eq!(cut(4..8, vec![]), vec![4..8]);
    }
}
