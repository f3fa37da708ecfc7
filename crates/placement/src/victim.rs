//! Which segments to clean: greedy, or by cost and benefit; and whether to clean at all or to plug holes.
//!
//! The index knows every closed segment that may be cleaned, by how full it is. It is told of each change
//! (`changed`), so that to choose does not mean to look at all. Segments are sorted into [`BUCKETS`] equal
//! steps of utilisation, and within a step by age, then by number: what differs by less than a step counts
//! as equal. A segment of which everything is live gains nothing and is never chosen.
//!
//! Told of a change, it takes O(log n), and mostly nothing, as few changes lead to another step; asked for
//! k victims, O(`BUCKETS` + k log n).

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Bound::{Excluded, Unbounded};

use crate::clock::WriteClock;
use crate::cost::{cleaning_cost, hole_plugging_cost};

/// Steps of utilisation that are told apart: 0.2 % each.
pub const BUCKETS: u64 = 512;

/// What is known of a closed segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed {
    /// Sectors that it has for data.
    pub capacity: u32,
    /// Sectors of them that are live.
    pub live: u32,
    /// When its last data was appended, from when its age counts.
    ///
    /// Rosenblum and Ousterhout (TOCS 1992, section 3.6) count from when the youngest of its data was
    /// written. What cleaning has moved is then old at once, and cleaned again although nothing more of it
    /// died: simulated, that costs more for every distribution of accesses, and most with several streams.
    pub closed: WriteClock,
}

/// How to choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Selection {
    /// The emptiest first.
    Greedy,
    /// Those with the most of (1−u)·age/(1+u) first: free room, for the longer the older it is, by what
    /// it costs to read a segment and write what is live (Rosenblum and Ousterhout, section 3.5).
    #[default]
    CostBenefit,
}

/// A segment to clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    /// Its number.
    pub segment: u32,
    /// Sectors to be moved.
    pub live: u32,
    /// Sectors gained, at least one.
    pub gain: u32,
}

/// The closed segments, by how full they are.
#[derive(Clone, Debug)]
pub struct Victims {
    /// By number; a capacity of 0 says that it may not be cleaned.
    segments: Vec<Closed>,
    /// Those that are not full, by the step of their utilisation.
    buckets: Vec<BTreeSet<(WriteClock, u32)>>,
    full: u32,
    reclaimable: u64,
}

const NONE: Closed = Closed {
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

impl Closed {
    fn gain(&self) -> u32 {
        self.capacity - self.live
    }

    /// The step that it is in; nothing if it is full.
    fn bucket(&self) -> Option<usize> {
        let step = u64::from(self.live) * BUCKETS / u64::from(self.capacity);
        (self.live < self.capacity).then_some(step as usize)
    }

    /// (1−u)·age/(1+u).
    fn benefit(&self, now: WriteClock) -> f64 {
        let worth = f64::from(self.gain()) * now.since(self.closed) as f64;
        worth / (f64::from(self.capacity) + f64::from(self.live))
    }
}

impl Victims {
    /// No segment that may be cleaned.
    pub fn new() -> Victims {
        Victims::default()
    }

    /// `segment` is closed, and may be cleaned from now on.
    pub fn add(&mut self, segment: u32, closed: Closed) {
        self.remove(segment);
        let at = segment as usize;
        if self.segments.len() <= at {
            self.segments.resize(at + 1, NONE);
        }
        let live = closed.live.min(closed.capacity);
        self.segments[at] = Closed { live, ..closed };
        self.enter(segment);
    }

    /// `segment` may not be cleaned any more: it is being cleaned, or free. Tells what was known of it.
    pub fn remove(&mut self, segment: u32) -> Option<Closed> {
        let closed = self.get(segment)?;
        self.leave(segment);
        self.segments[segment as usize] = NONE;
        Some(closed)
    }

    /// So many sectors of `segment` are live now. Nothing happens if it may not be cleaned.
    pub fn changed(&mut self, segment: u32, live: u32) {
        let Some(before) = self.get(segment) else {
            return;
        };
        let live = live.min(before.capacity);
        let after = Closed { live, ..before };
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

    /// What is known of `segment`, if it may be cleaned.
    pub fn get(&self, segment: u32) -> Option<Closed> {
        let closed = self.segments.get(segment as usize)?;
        (closed.capacity > 0).then_some(*closed)
    }

    /// Sectors that cleaning all of them would gain.
    pub fn reclaimable(&self) -> u64 {
        self.reclaimable
    }

    /// How many segments are utilised to how many tenths: the first of less than one, the eleventh full.
    pub fn histogram(&self) -> [u32; 11] {
        let mut tenths = [0; 11];
        for (step, bucket) in self.buckets.iter().enumerate() {
            tenths[step * 10 / BUCKETS as usize] += bucket.len() as u32;
        }
        tenths[10] = self.full;
        tenths
    }

    /// Victims, best first, until they gain `wanted` sectors or there are `most` of them. Only segments that
    /// gain at least `least` sectors, so that old ones with little garbage do not hide those that gain much.
    pub fn choose(
        &self,
        selection: Selection,
        now: WriteClock,
        wanted: u64,
        most: usize,
        least: u32,
    ) -> Vec<Victim> {
        let gains = |segment: &u32| self.segments[*segment as usize].gain() >= least;
        let steps = self.steps_that_gain(least);
        match selection {
            Selection::Greedy => {
                let segments = self.buckets[..steps].iter().flatten();
                let segments = segments.map(|&(_, segment)| segment);
                self.take(segments.filter(gains), wanted, most)
            }
            Selection::CostBenefit => {
                let best = self.ranked(steps, |closed| closed.benefit(now));
                self.take(best.filter(gains), wanted, most)
            }
        }
    }

    /// The steps of utilisation that may hold a segment that gains `least` sectors: an upper bound, found at the oldest
    /// segment of each step.
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

    /// Segments with holes, those first that are least likely to be cleaned soon: with the most of u·age.
    ///
    /// Not the fullest, as in Matthews et al. (SOSP 1997, section 4): of a log whose pages are hot the
    /// newest segments are, and what is plugged there is soon found again. Plugging leaves a segment as old
    /// as it was.
    pub fn holed(&self, now: WriteClock) -> impl Iterator<Item = u32> {
        let worth = move |closed: &Closed| f64::from(closed.live) * now.since(closed.closed) as f64;
        self.ranked(BUCKETS as usize, worth)
    }

    fn take(&self, segments: impl Iterator<Item = u32>, wanted: u64, most: usize) -> Vec<Victim> {
        let mut gained = 0;
        let mut victims = Vec::new();
        for segment in segments.take(most) {
            if gained >= wanted {
                break;
            }
            let closed = self.segments[segment as usize];
            gained += u64::from(closed.gain());
            victims.push(Victim {
                segment,
                live: closed.live,
                gain: closed.gain(),
            });
        }
        victims
    }

    /// Those with the highest `worth` first. Of each step the oldest must be worth most; so the best of all
    /// is one of those.
    fn ranked(&self, steps: usize, worth: impl Fn(&Closed) -> f64) -> impl Iterator<Item = u32> {
        let ranked = move |step: usize, &(since, segment): &(WriteClock, u32)| Ranked {
            worth: worth(&self.segments[segment as usize]),
            first: Reverse((since, segment)),
            step,
        };
        let steps = self.buckets[..steps].iter().enumerate();
        let mut heads: BinaryHeap<Ranked> = steps
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

/// A candidate, the more the better; of equal ones the older, then the lower number.
struct Ranked {
    worth: f64,
    first: Reverse<(WriteClock, u32)>,
    step: usize,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> Ordering {
        let by_worth = self.worth.total_cmp(&other.worth);
        by_worth.then_with(|| self.first.cmp(&other.first))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// How to make room out of victims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Append what is live to the log.
    Clean,
    /// Write it into holes of other segments, page by page.
    Plug,
}

/// The cheaper method for `victims` by what each costs for the room that it makes (Matthews et al.,
/// section 4): 2/(1−u) or 2 + uE segment I/Os. `holes` are the sectors that are free within other
/// segments; without enough of them there is nothing to plug. `efficiency` is E (see [`crate::cost`]).
pub fn method(victims: &[Victim], holes: u64, efficiency: f64) -> Method {
    let sum = |part: fn(&Victim) -> u32| victims.iter().map(|v| u64::from(part(v))).sum::<u64>();
    let (live, gain) = (sum(|victim| victim.live), sum(|victim| victim.gain));
    if holes < live || live + gain == 0 {
        return Method::Clean;
    }
    let u = live as f64 / (live + gain) as f64;
    match hole_plugging_cost(u, efficiency) < cleaning_cost(u) {
        true => Method::Plug,
        false => Method::Clean,
    }
}

#[cfg(test)]
#[path = "victim_tests.rs"]
mod tests;
