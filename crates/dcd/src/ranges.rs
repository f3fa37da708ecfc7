//! Ranges without data: zeroed, discarded or lost, whatever their size.

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_log::RangeKind;
use forebay_units::RecordSeq;

/// What a stretch of sectors is said to be, and by which record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) kind: RangeKind,
    pub(crate) record: RecordSeq,
}

/// Disjoint ranges of sectors, each with a mark; the newest mark of a sector counts.
#[derive(Default)]
pub(crate) struct RangeMap {
    /// By first sector: the sector after the last, and the mark.
    ranges: BTreeMap<u64, (u64, Mark)>,
}

impl RangeMap {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Takes the range out of whatever covers it.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        self.split(range.start);
        self.split(range.end);
        let inside: Vec<u64> = self.ranges.range(range).map(|(start, _)| *start).collect();
        for start in inside {
            self.ranges.remove(&start);
        }
    }

    pub(crate) fn insert(&mut self, range: Range<u64>, mark: Mark) {
        self.remove(range.clone());
        self.ranges.insert(range.start, (range.end, mark));
    }

    fn split(&mut self, at: u64) {
        let Some((start, (end, mark))) = self.ranges.range(..at).next_back() else {
            return;
        };
        let (start, end, mark) = (*start, *end, *mark);
        if end > at {
            self.ranges.insert(start, (at, mark));
            self.ranges.insert(at, (end, mark));
        }
    }

    /// The marked parts of `range`, in order.
    pub(crate) fn overlapping(
        &self,
        range: Range<u64>,
    ) -> impl Iterator<Item = (Range<u64>, Mark)> {
        let before = self.ranges.range(..range.start).next_back();
        let inside = self.ranges.range(range.clone());
        before
            .into_iter()
            .chain(inside)
            .filter_map(move |(start, (end, mark))| {
                let part = (*start).max(range.start)..(*end).min(range.end);
                (part.start < part.end).then_some((part, *mark))
            })
    }

    /// All marked ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Range<u64>, Mark)> {
        self.ranges
            .iter()
            .map(|(start, (end, mark))| (*start..*end, *mark))
    }

    /// Takes out what records before `record` marked.
    pub(crate) fn forget_before(&mut self, record: RecordSeq) {
        self.ranges.retain(|_, (_, mark)| mark.record >= record);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mark(n: u64) -> Mark {
        Mark {
            kind: RangeKind::Zero,
            record: RecordSeq(n),
        }
    }

    proptest! {
        #[test]
        fn the_newest_mark_of_every_sector_is_the_one_told(
            steps in proptest::collection::vec((0..60u64, 1..30u64, any::<bool>()), 1..40)
        ) {
            let (mut map, mut model) = (RangeMap::default(), [None; 100]);
            for (n, (at, len, put)) in steps.into_iter().enumerate() {
                let (range, new) = (at..at + len, mark(n as u64));
                model[at as usize..(at + len) as usize].fill(put.then_some(new));
                if put { map.insert(range, new) } else { map.remove(range) }
                let mut seen = [None; 100];
                for (range, mark) in map.overlapping(0..100) {
                    seen[range.start as usize..range.end as usize].fill(Some(mark));
                }
                prop_assert_eq!(seen, model);
                let mut middle = [None; 100];
                for (range, mark) in map.overlapping(20..40) {
                    prop_assert!(range.start >= 20 && range.end <= 40);
                    middle[range.start as usize..range.end as usize].fill(Some(mark));
                }
                prop_assert_eq!(&middle[20..40], &model[20..40]);
            }
        }
    }
}
