//! Choice of the segments to clean, greedy or by cost and benefit, and the choice between cleaning and plugging holes.
//!
//! The index contains every closed segment that may be cleaned, by utilisation. Callers report each change (`changed`),
//! so a choice need not examine all segments. Segments are sorted into [`BUCKETS`] equal steps of utilisation, and
//! within a step by age, then by number. Segments in one step are treated as equally utilised. A completely live
//! segment gains nothing and is never chosen.
//!
//! A change takes O(log n), and usually no time, since few changes lead to another step. A choice of k victims takes
//! O(`BUCKETS` + k log n).

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Bound::{Excluded, Unbounded};

use crate::clock::WriteClock;
use crate::cost::{cleaning_cost, hole_plugging_cost};

/// Number of distinguished steps of utilisation: 0.2 % each.
pub const BUCKETS: u64 = 512;

/// A closed segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosedSegment {
    /// Capacity for data, in sectors.
    pub capacity: u32,
    /// Live sectors.
    pub live: u32,
    /// Time of the last append, from which the segment's age is measured.
    ///
    /// Rosenblum and Ousterhout (TOCS 1992, section 3.6) measure age from the write of the youngest data. A segment of
    /// moved data is then old at once, and is cleaned again although no more of its data died. In simulations this
    /// costs more for every distribution of accesses, and most with several streams.
    pub closed: WriteClock,
}

/// Method of choosing segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VictimSelection {
    /// Emptiest segments first.
    Greedy,
    /// Segments with the highest (1−u)·age/(1+u) first: the free space, weighed by its age, relative to the cost of
    /// reading a segment and writing its live data (Rosenblum and Ousterhout, section 3.5).
    #[default]
    CostBenefit,
}

/// A segment to clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CleaningVictim {
    /// Number of the segment.
    pub segment: u32,
    /// Sectors that must be moved.
    pub live: u32,
    /// Sectors gained, at least one.
    pub gain: u32,
}

/// Closed segments, by utilisation.
#[derive(Clone, Debug)]
pub struct Victims {
    /// Segments by number. A capacity of 0 means that the segment may not be cleaned.
    segments: Vec<ClosedSegment>,
    /// Segments that are not full, by their step of utilisation.
    buckets: Vec<BTreeSet<(WriteClock, u32)>>,
    full: u32,
    reclaimable: u64,
}

const NONE: ClosedSegment = ClosedSegment {
    capacity: 0,
    live: 0,
    closed: WriteClock(0),
};

impl Default for Victims {
    fn default() -> Victims {
        Victims {
            segments: Vec::new(),
            buckets: vec![BTreeSet::new(); BUCKETS as usize],
            full: 0,
            reclaimable: 0,
        }
    }
}

impl ClosedSegment {
    fn gain(&self) -> u32 {
        self.capacity - self.live
    }

    /// Returns the step of the segment. `None` if the segment is full.
    fn bucket(&self) -> Option<usize> {
        let step = u64::from(self.live) * BUCKETS / u64::from(self.capacity);
        (self.live < self.capacity).then_some(step as usize)
    }

    /// Returns (1−u)·age/(1+u).
    fn benefit(&self, now: WriteClock) -> f64 {
        let worth = f64::from(self.gain()) * now.since(self.closed) as f64;
        worth / (f64::from(self.capacity) + f64::from(self.live))
    }
}

impl Victims {
    /// Creates an index without segments.
    pub fn new() -> Victims {
        Victims::default()
    }

    /// Notes that `segment` is closed and may be cleaned.
    pub fn add(&mut self, segment: u32, closed: ClosedSegment) {
        self.remove(segment);
        let at = segment as usize;
        if self.segments.len() <= at {
            self.segments.resize(at + 1, NONE);
        }
        let live = closed.live.min(closed.capacity);
        self.segments[at] = ClosedSegment { live, ..closed };
        self.enter(segment);
    }

    /// Notes that `segment` may not be cleaned any more: it is being cleaned, or free. Returns its entry.
    pub fn remove(&mut self, segment: u32) -> Option<ClosedSegment> {
        let closed = self.get(segment)?;
        self.leave(segment);
        self.segments[segment as usize] = NONE;
        Some(closed)
    }

    /// Notes the number of live sectors of `segment`. Does nothing if the segment may not be cleaned.
    pub fn changed(&mut self, segment: u32, live: u32) {
        let Some(before) = self.get(segment) else {
            return;
        };
        let live = live.min(before.capacity);
        let after = ClosedSegment { live, ..before };
        if after.bucket() == before.bucket() {
            self.reclaimable += u64::from(after.gain());
            self.reclaimable -= u64::from(before.gain());
            self.segments[segment as usize] = after;
            return;
        }
        self.leave(segment);
        self.segments[segment as usize] = after;
        self.enter(segment);
    }

    /// Returns the entry of `segment`, if it may be cleaned.
    pub fn get(&self, segment: u32) -> Option<ClosedSegment> {
        let closed = self.segments.get(segment as usize)?;
        (closed.capacity > 0).then_some(*closed)
    }

    /// Returns the sectors that cleaning all segments would gain.
    pub fn reclaimable(&self) -> u64 {
        self.reclaimable
    }

    /// Returns the number of segments by tenths of utilisation: the first entry is below one tenth, the eleventh is
    /// full.
    pub fn histogram(&self) -> [u32; 11] {
        let mut tenths = [0; 11];
        for (step, bucket) in self.buckets.iter().enumerate() {
            tenths[step * 10 / BUCKETS as usize] += bucket.len() as u32;
        }
        tenths[10] = self.full;
        tenths
    }

    /// Returns victims, best first, until they gain `wanted` sectors or their number is `most`. Excludes segments that
    /// gain fewer than `least` sectors, so that old segments with little garbage do not hide those with a large gain.
    pub fn choose(
        &self,
        selection: VictimSelection,
        now: WriteClock,
        wanted: u64,
        most: usize,
        least: u32,
    ) -> Vec<CleaningVictim> {
        let gains = |segment: &u32| self.segments[*segment as usize].gain() >= least;
        let steps = self.steps_that_gain(least);
        match selection {
            VictimSelection::Greedy => {
                let segments = self.buckets[..steps].iter().flatten();
                let segments = segments.map(|&(_, segment)| segment);
                self.take(segments.filter(gains), wanted, most)
            }
            VictimSelection::CostBenefit => {
                let best = self.ranked(steps, |closed| closed.benefit(now));
                self.take(best.filter(gains), wanted, most)
            }
        }
    }

    /// Returns the number of steps that may contain a segment with a gain of `least` sectors: an upper bound, derived
    /// from the oldest segment of each step.
    fn steps_that_gain(&self, least: u32) -> usize {
        let may_gain = |step: usize, bucket: &BTreeSet<(WriteClock, u32)>| {
            let (_, first) = bucket.first()?;
            let capacity = u64::from(self.segments[*first as usize].capacity);
            let live = (step as u64 * capacity).div_ceil(BUCKETS);
            Some(capacity - live.min(capacity) >= u64::from(least))
        };
        let steps = self.buckets.iter().enumerate();
        let none = steps.skip_while(|(step, bucket)| may_gain(*step, bucket) != Some(false));
        none.map(|(step, _)| step)
            .next()
            .unwrap_or(BUCKETS as usize)
    }

    /// Returns segments with holes, in the order of decreasing u·age: segments that will probably not be cleaned soon
    /// come first.
    ///
    /// The order is not that of Matthews et al. (SOSP 1997, section 4), the fullest first. In a log of hot pages the
    /// newest segments are the fullest, and cleaning would soon find the plugged data there again. Plugging does not
    /// change the age of a segment.
    pub fn holed(&self, now: WriteClock) -> impl Iterator<Item = u32> {
        let worth =
            move |closed: &ClosedSegment| f64::from(closed.live) * now.since(closed.closed) as f64;
        self.ranked(BUCKETS as usize, worth)
    }

    fn take(
        &self,
        segments: impl Iterator<Item = u32>,
        wanted: u64,
        most: usize,
    ) -> Vec<CleaningVictim> {
        let mut gained = 0;
        let mut victims = Vec::new();
        for segment in segments.take(most) {
            if gained >= wanted {
                break;
            }
            let closed = self.segments[segment as usize];
            gained += u64::from(closed.gain());
            victims.push(CleaningVictim {
                segment,
                live: closed.live,
                gain: closed.gain(),
            });
        }
        victims
    }

    /// Returns segments by decreasing `worth`. In each step the oldest segment must have the highest worth, so the best
    /// segment of all is the oldest of its step.
    fn ranked(
        &self,
        steps: usize,
        worth: impl Fn(&ClosedSegment) -> f64,
    ) -> impl Iterator<Item = u32> {
        let ranked = move |step: usize, &(since, segment): &(WriteClock, u32)| RankedVictim {
            worth: worth(&self.segments[segment as usize]),
            first: Reverse((since, segment)),
            step,
        };
        let steps = self.buckets[..steps].iter().enumerate();
        let mut heads: BinaryHeap<RankedVictim> = steps
            .filter_map(|(step, bucket)| Some(ranked(step, bucket.first()?)))
            .collect();
        std::iter::from_fn(move || {
            let best = heads.pop()?;
            let Reverse(taken) = best.first;
            let mut younger = self.buckets[best.step].range((Excluded(taken), Unbounded));
            heads.extend(younger.next().map(|next| ranked(best.step, next)));
            Some(taken.1)
        })
    }

    fn enter(&mut self, segment: u32) {
        let closed = self.segments[segment as usize];
        if closed.capacity == 0 {
            return;
        }
        self.reclaimable += u64::from(closed.gain());
        match closed.bucket() {
            Some(step) => _ = self.buckets[step].insert((closed.closed, segment)),
            None => self.full += 1,
        }
    }

    fn leave(&mut self, segment: u32) {
        let closed = self.segments[segment as usize];
        self.reclaimable -= u64::from(closed.gain());
        match closed.bucket() {
            Some(step) => _ = self.buckets[step].remove(&(closed.closed, segment)),
            None => self.full -= 1,
        }
    }
}

/// A candidate, ordered by worth. Of equal candidates the older is better, then the lower number.
struct RankedVictim {
    worth: f64,
    first: Reverse<(WriteClock, u32)>,
    step: usize,
}

impl Ord for RankedVictim {
    fn cmp(&self, other: &RankedVictim) -> Ordering {
        let by_worth = self.worth.total_cmp(&other.worth);
        by_worth.then_with(|| self.first.cmp(&other.first))
    }
}

impl PartialOrd for RankedVictim {
    fn partial_cmp(&self, other: &RankedVictim) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RankedVictim {
    fn eq(&self, other: &RankedVictim) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RankedVictim {}

/// Method of gaining free space from victims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReclaimMethod {
    /// Append the live data to the log.
    Clean,
    /// Write the live data into holes of other segments, page by page.
    Plug,
}

/// Returns the cheaper method for `victims`, by cost per gained space (Matthews et al., section 4): 2/(1−u) or 2 + uE
/// segment I/Os. `holes` are the free sectors within other segments; with too few of them plugging is impossible.
/// `efficiency` is E (see [`crate::cost`]).
pub fn method(victims: &[CleaningVictim], holes: u64, efficiency: f64) -> ReclaimMethod {
    let sum =
        |part: fn(&CleaningVictim) -> u32| victims.iter().map(|v| u64::from(part(v))).sum::<u64>();
    let (live, gain) = (sum(|victim| victim.live), sum(|victim| victim.gain));
    if holes < live || live + gain == 0 {
        return ReclaimMethod::Clean;
    }
    let u = live as f64 / (live + gain) as f64;
    if hole_plugging_cost(u, efficiency) < cleaning_cost(u) {
        ReclaimMethod::Plug
    } else {
        ReclaimMethod::Clean
    }
}

#[cfg(test)]
#[path = "victim_tests.rs"]
mod tests;
