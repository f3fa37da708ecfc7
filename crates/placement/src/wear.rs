//! How worn segments are: which free one to take, and when to move what lies still.
//!
//! A segment's count says how often it was erased, or begun anew. The free segment that is least worn is
//! taken first. That alone leaves those unworn in which data never changes: so once the counts differ by
//! more than a bound, the contents of the least worn segment are to move elsewhere (*static wear levelling*; Chang,
//! Hsieh and Kuo, "Endurance enhancement of flash-memory storage systems", DAC 2007). Not more often than once
//! in so many erases, which bounds what it costs.
//!
//! They move to whatever is filled next, not to the most worn free segment, as in that paper: segments are used in
//! an order that is settled before. What lies still is moved a little more often for that.

use std::collections::BTreeSet;

/// Options of wear levelling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levelling {
    /// The counts of the most and the least worn segment may differ by this.
    pub bound: u32,
    /// So many erases lie between two segments moved for wear.
    pub every: u32,
}

impl Levelling {
    /// Nothing moves for wear.
    pub const NEVER: Levelling = Levelling {
        bound: u32::MAX,
        every: u32::MAX,
    };
}

impl Default for Levelling {
    /// A difference of 64, and one erase in 32 for wear: write amplification by a thirty-second at most,
    /// as long as counts differ too much.
    fn default() -> Levelling {
        Levelling {
            bound: 64,
            every: 32,
        }
    }
}

/// Counts of erases, and which segments are free.
#[derive(Clone, Debug)]
pub struct Wear {
    counts: Vec<u32>,
    /// By count, then number.
    free: BTreeSet<(u32, u32)>,
    used: BTreeSet<(u32, u32)>,
    levelling: Levelling,
    since: u32,
}

impl Wear {
    /// Segments with these counts, none of them free.
    pub fn new(counts: Vec<u32>, levelling: Levelling) -> Wear {
        let used = counts
            .iter()
            .zip(0..)
            .map(|(&count, segment)| (count, segment));
        Wear {
            used: used.collect(),
            counts,
            free: BTreeSet::new(),
            levelling,
            since: 0,
        }
    }

    /// Adds segments that were never erased up to a number of `segments`, none of them free.
    pub fn grow(&mut self, segments: usize) {
        let first = self.counts.len();
        self.counts.resize(segments.max(first), 0);
        let new = first as u32..self.counts.len() as u32;
        self.used.extend(new.map(|segment| (0, segment)));
    }

    /// `segment` was erased or discarded once more.
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

    /// `segment` is free.
    pub fn freed(&mut self, segment: u32) {
        let Some(&count) = self.counts.get(segment as usize) else {
            return;
        };
        self.used.remove(&(count, segment));
        self.free.insert((count, segment));
    }

    /// Takes the least worn free segment; nothing if there is none.
    pub fn take(&mut self) -> Option<u32> {
        let taken = self.free.pop_first()?;
        self.used.insert(taken);
        Some(taken.1)
    }

    /// Takes `segment`, as recovery does that finds data in it. False if it was not free.
    pub fn take_this(&mut self, segment: u32) -> bool {
        let count = self.counts.get(segment as usize).copied();
        let Some(entry) = count.map(|count| (count, segment)) else {
            return false;
        };
        let was_free = self.free.remove(&entry);
        self.used.insert(entry);
        was_free
    }

    /// How many segments are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// The counts, by segment.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// The least and the highest count; none of no segments.
    pub fn extremes(&self) -> Option<(u32, u32)> {
        let (free, used) = (&self.free, &self.used);
        let low = [free.first(), used.first()].into_iter().flatten().min()?;
        let high = [free.last(), used.last()].into_iter().flatten().max()?;
        Some((low.0, high.0))
    }

    /// The segment whose contents are to be moved for wear now: the least worn that `may_move` allows (closed, and not being cleaned), if the counts differ by more than
    /// the bound and the last such move is long enough ago.
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

    /// A segment is being moved for wear.
    pub fn moving(&mut self) {
        self.since = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_rng::Rng;

    const STRICT: Levelling = Levelling { bound: 4, every: 0 };

    #[test]
    fn the_least_worn_free_segment_is_taken() {
        let mut wear = Wear::new(vec![5, 2, 9, 2, 0], STRICT);
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
    fn what_lies_in_the_least_worn_segment_is_to_move_once_counts_differ_by_more_than_the_bound() {
        let mut wear = Wear::new(vec![3, 1, 1, 5], STRICT);
        wear.freed(3);
        assert_eq!(
            (wear.extremes(), wear.to_move(|_| true)),
            (Some((1, 5)), None)
        );
        wear.erased(3);
        assert_eq!(wear.extremes(), Some((1, 6)));
        assert_eq!(wear.to_move(|_| true), Some(1));
        assert_eq!(wear.to_move(|segment| segment != 1), Some(2));
        // 3 differs by 3 only.
        assert_eq!(wear.to_move(|segment| segment == 0), None);
        // A free segment holds nothing to move.
        wear.freed(1);
        wear.freed(2);
        assert_eq!(wear.to_move(|_| true), None);
    }

    #[test]
    fn moves_for_wear_are_so_many_erases_apart() {
        let levelling = Levelling { bound: 1, every: 3 };
        let mut wear = Wear::new(vec![0, 9], levelling);
        for due in [false, false, true, true] {
            wear.erased(1);
            assert_eq!(wear.to_move(|_| true).is_some(), due);
        }
        wear.moving();
        assert_eq!(wear.to_move(|_| true), None);
        assert_eq!(Wear::new(Vec::new(), levelling).extremes(), None);
    }

    /// Three quarters of the segments hold data that never changes, and only the others are ever written.
    fn worn_by_hot_data(levelling: Levelling) -> (u32, u64) {
        let (segments, rng) = (64, Rng::new(3));
        let mut wear = Wear::new(vec![0; segments as usize], levelling);
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
    fn data_that_never_changes_does_not_keep_its_segments_unworn() {
        let (spread, moves) = worn_by_hot_data(Levelling::NEVER);
        assert!(spread > 1000 && moves == 0, "{spread}");
        let (spread, moves) = worn_by_hot_data(Levelling::default());
        assert!(spread <= 66, "{spread}");
        assert!(moves <= 20_000 / 32 + 1, "{moves}");
    }
}
