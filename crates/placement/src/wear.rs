//! Wear of segments: choice of the next free segment, and of static data to move.
//!
//! The count of a segment is its number of erases or reuses. The least worn free segment is used first. But segments
//! with data that never changes would stay unworn. So if the counts differ by more than a bound, the contents of the
//! least worn segment are moved elsewhere (*static wear levelling*; Chang, Hsieh and Kuo, "Endurance enhancement of
//! flash-memory storage systems", DAC 2007). A minimum number of erases between such moves limits their cost.
//!
//! The data moves to the segment that is filled next, not to the most worn free segment as in that paper, since the
//! order of segments is decided before. So static data is moved a little more often.

use std::collections::BTreeSet;

/// Options of wear levelling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WearLevelling {
    /// Maximum difference between the counts of the most and the least worn segment.
    pub bound: u32,
    /// Number of erases between two segments moved because of wear.
    pub every: u32,
}

impl WearLevelling {
    /// Options that disable wear levelling.
    pub const NEVER: WearLevelling = WearLevelling {
        bound: u32::MAX,
        every: u32::MAX,
    };
}

impl Default for WearLevelling {
    /// Returns a difference of 64, and one erase in 32 for wear: this raises write amplification by at most 1/32 while
    /// the counts differ too much.
    fn default() -> WearLevelling {
        WearLevelling {
            bound: 64,
            every: 32,
        }
    }
}

/// Erase counts, and the set of free segments.
#[derive(Clone, Debug)]
pub struct SegmentWear {
    counts: Vec<u32>,
    /// Free segments by count, then number.
    free: BTreeSet<(u32, u32)>,
    used: BTreeSet<(u32, u32)>,
    levelling: WearLevelling,
    since: u32,
}

impl SegmentWear {
    /// Creates the state of segments with these counts, none of them free.
    pub fn new(counts: Vec<u32>, levelling: WearLevelling) -> SegmentWear {
        let used = counts
            .iter()
            .zip(0..)
            .map(|(&count, segment)| (count, segment));
        SegmentWear {
            used: used.collect(),
            counts,
            free: BTreeSet::new(),
            levelling,
            since: 0,
        }
    }

    /// Adds segments with count 0, not free, until the number is `segments`.
    pub fn grow(&mut self, segments: usize) {
        let first = self.counts.len();
        self.counts.resize(segments.max(first), 0);
        let new = first as u32..self.counts.len() as u32;
        self.used.extend(new.map(|segment| (0, segment)));
    }

    /// Notes that `segment` was erased or discarded.
    pub fn erased(&mut self, segment: u32) {
        let Some(count) = self.counts.get_mut(segment as usize) else {
            return;
        };
        let before = (*count, segment);
        *count = count.saturating_add(1);
        for set in [&mut self.free, &mut self.used] {
            if set.remove(&before) {
                set.insert((*count, segment));
            }
        }
        self.since = self.since.saturating_add(1);
    }

    /// Notes that `segment` is free.
    pub fn freed(&mut self, segment: u32) {
        let Some(&count) = self.counts.get(segment as usize) else {
            return;
        };
        self.used.remove(&(count, segment));
        self.free.insert((count, segment));
    }

    /// Takes the least worn free segment, if any.
    pub fn take(&mut self) -> Option<u32> {
        let taken = self.free.pop_first()?;
        self.used.insert(taken);
        Some(taken.1)
    }

    /// Takes `segment`: recovery found data in it. Returns false if the segment was not free.
    pub fn take_this(&mut self, segment: u32) -> bool {
        let count = self.counts.get(segment as usize).copied();
        let Some(entry) = count.map(|count| (count, segment)) else {
            return false;
        };
        let was_free = self.free.remove(&entry);
        self.used.insert(entry);
        was_free
    }

    /// Returns the number of free segments.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Returns the counts by segment.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Returns the lowest and the highest count. `None` without segments.
    pub fn extremes(&self) -> Option<(u32, u32)> {
        let (free, used) = (&self.free, &self.used);
        let low = [free.first(), used.first()].into_iter().flatten().min()?;
        let high = [free.last(), used.last()].into_iter().flatten().max()?;
        Some((low.0, high.0))
    }

    /// Returns the segment whose contents must now be moved because of wear: the least worn one that `may_move` allows
    /// (closed, and not being cleaned). `None` unless the counts differ by more than the bound and the last such move
    /// was enough erases ago.
    pub fn to_move(&self, may_move: impl Fn(u32) -> bool) -> Option<u32> {
        let (_, high) = self.extremes()?;
        let limit = high.checked_sub(self.levelling.bound)?;
        if self.since < self.levelling.every {
            return None;
        }
        let unworn = self.used.iter().take_while(|(count, _)| *count < limit);
        let mut numbers = unworn.map(|&(_, segment)| segment);
        numbers.find(|&segment| may_move(segment))
    }

    /// Notes that a segment is being moved because of wear.
    pub fn moving(&mut self) {
        self.since = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_rng::Rng;

    const STRICT: WearLevelling = WearLevelling { bound: 4, every: 0 };

    #[test]
    fn the_least_worn_free_segment_is_taken() {
        let mut wear = SegmentWear::new(vec![5, 2, 9, 2, 0], STRICT);
        assert_eq!(wear.take(), None);
        for segment in [0, 1, 2, 3, 77] {
            wear.freed(segment);
        }
        assert_eq!(wear.free(), 4);
        assert_eq!(wear.take(), Some(1));
        assert!(wear.take_this(3) && !wear.take_this(3) && !wear.take_this(99));
        assert_eq!(wear.take(), Some(0));
        assert_eq!(wear.take(), Some(2));
        assert_eq!(wear.take(), None);
    }

    #[test]
    fn data_of_the_least_worn_segment_moves_once_erase_counts_differ_by_more_than_the_bound() {
        let mut wear = SegmentWear::new(vec![3, 1, 1, 5], STRICT);
        wear.freed(3);
        assert_eq!(
            (wear.extremes(), wear.to_move(|_| true)),
            (Some((1, 5)), None)
        );
        wear.erased(3);
        assert_eq!(wear.extremes(), Some((1, 6)));
        assert_eq!(wear.to_move(|_| true), Some(1));
        assert_eq!(wear.to_move(|segment| segment != 1), Some(2));
        // The count of segment 3 differs by only 3.
        assert_eq!(wear.to_move(|segment| segment == 0), None);
        // A free segment has no data to move.
        wear.freed(1);
        wear.freed(2);
        assert_eq!(wear.to_move(|_| true), None);
    }

    #[test]
    fn moves_for_wear_levelling_are_separated_by_the_configured_number_of_erases() {
        let levelling = WearLevelling { bound: 1, every: 3 };
        let mut wear = SegmentWear::new(vec![0, 9], levelling);
        for due in [false, false, true, true] {
            wear.erased(1);
            assert_eq!(wear.to_move(|_| true).is_some(), due);
        }
        wear.moving();
        assert_eq!(wear.to_move(|_| true), None);
        assert_eq!(SegmentWear::new(Vec::new(), levelling).extremes(), None);
    }

    /// Simulates static data in three quarters of the segments; only the other segments are written.
    fn worn_by_hot_data(levelling: WearLevelling) -> (u32, u64) {
        let (segments, rng) = (64, Rng::new(3));
        let mut wear = SegmentWear::new(vec![0; segments as usize], levelling);
        (48..segments).for_each(|segment| wear.freed(segment));
        let mut hot: Vec<u32> = (0..8).filter_map(|_| wear.take()).collect();
        let mut moves = 0;
        for _ in 0..20_000 {
            let old = hot.swap_remove(rng.below(hot.len() as u64) as usize);
            wear.erased(old);
            wear.freed(old);
            hot.extend(wear.take());
            if let Some(still) = wear.to_move(|segment| !hot.contains(&segment)) {
                wear.moving();
                assert!(wear.take().is_some());
                wear.erased(still);
                wear.freed(still);
                moves += 1;
            }
        }
        let (low, high) = wear.extremes().unwrap();
        (high - low, moves)
    }

    #[test]
    fn wear_levelling_moves_unchanging_data_out_of_unworn_segments() {
        let (spread, moves) = worn_by_hot_data(WearLevelling::NEVER);
        assert!(spread > 1000 && moves == 0, "{spread}");
        let (spread, moves) = worn_by_hot_data(WearLevelling::default());
        assert!(spread <= 66, "{spread}");
        assert!(moves <= 20_000 / 32 + 1, "{moves}");
    }
}
