//! Cutting of ranges at given positions.

use std::ops::Range;

use forebay_units::RangeSet;

/// Cuts `range` at the positions in `cuts` that lie within it.
pub(crate) fn cut(range: Range<u64>, mut cuts: Vec<u64>) -> Vec<Range<u64>> {
    cuts.retain(|cut| range.contains(cut));
    cuts.extend([range.start, range.end]);
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|ends| ends[0]..ends[1]).collect()
}

/// Cuts `range` at the beginnings and ends of all ranges in `sets`.
pub(crate) fn cut_by<'a>(
    range: Range<u64>,
    sets: impl Iterator<Item = &'a RangeSet>,
) -> Vec<Range<u64>> {
    let parts = sets.flat_map(|set| set.parts(range.clone()));
    let ends = parts.flat_map(|part| [part.start, part.end]).collect();
    cut(range, ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_split_at_the_given_positions_only() {
        assert_eq!(cut(4..8, vec![9, 6, 4, 6, 8]), [4..6, 6..8]);
        assert_eq!(cut(4..8, vec![]), vec![4..8]);
    }
}
