//! State of the paper's cache, without waiting.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use forebay_rt::Instant;

/// Unit of the table, in bytes.
pub(super) const FRAGMENT: u64 = 1024;
/// Fragments in a segment.
pub(super) const SLOTS: usize = 128;
/// Segments in memory: one being filled, and one being written.
const BUFFERS: usize = 2;

/// Order in which segments are destaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PaperDestageOrder {
    /// The oldest segment first.
    Ring,
    /// The newest segment first.
    LastWritten,
    /// The segment with the fewest valid fragments first; among equals the oldest.
    LeastValid,
}

#[derive(Clone, Default, Debug)]
struct PaperSegment {
    /// Fragments in the order of writing; a fragment may occur more than once.
    fragments: Vec<u64>,
    valid: usize,
    in_memory: bool,
}

/// Places of the data to read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FragmentPlaces {
    /// Segments, and the number of wanted fragments in each.
    pub(super) in_log: BTreeMap<usize, u64>,
    /// True if the data device holds some of the wanted data.
    pub(super) home: bool,
}

/// State of the cache.
#[derive(Default, Debug)]
pub(super) struct PaperCacheState {
    places: BTreeMap<u64, usize>,
    segments: Vec<PaperSegment>,
    free: VecDeque<usize>,
    /// Segments on the log device with valid fragments, oldest first.
    dirty: VecDeque<usize>,
    current: Option<usize>,
    /// Time of the first fragment in the open segment.
    begun: Instant,
    /// Number of segments being written.
    pub(super) writing: usize,
    /// Requests that wait for a buffer or for a segment.
    pub(super) starving: usize,
    requests: usize,
    quiet_since: Instant,
}

impl PaperCacheState {
    pub(super) fn new(segments: usize) -> PaperCacheState {
        PaperCacheState {
            segments: vec![PaperSegment::default(); segments],
            free: (0..segments).collect(),
            ..PaperCacheState::default()
        }
    }

    pub(super) fn begin(&mut self) {
        self.requests += 1;
    }

    pub(super) fn end(&mut self, now: Instant) {
        self.requests -= 1;
        self.quiet_since = now;
    }

    pub(super) fn is_busy(&self) -> bool {
        self.requests > 0
    }

    /// Returns the time since the last request; `None` while a request is in progress.
    pub(super) fn idle(&self, now: Instant) -> Option<Duration> {
        (!self.is_busy()).then(|| now.since(self.quiet_since))
    }

    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Returns true if no segment is free.
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns the share of the segments that are not free.
    pub(super) fn used(&self) -> f64 {
        1.0 - self.free.len() as f64 / self.segments.len() as f64
    }

    /// Opens a segment if no segment is open. Returns true if a segment is open afterwards.
    pub(super) fn open(&mut self) -> bool {
        if self.current.is_none() && self.writing < BUFFERS {
            self.current = self.free.pop_front();
            if let Some(segment) = self.current {
                self.segments[segment].in_memory = true;
            }
        }
        self.current.is_some()
    }

    /// Puts a fragment into the open segment. Returns true if the segment is full now.
    pub(super) fn put(&mut self, fragment: u64, now: Instant) -> bool {
        self.forget(fragment);
        let current = self.current.expect("a segment is open");
        let segment = &mut self.segments[current];
        if segment.fragments.is_empty() {
            self.begun = now;
        }
        segment.fragments.push(fragment);
        segment.valid += 1;
        self.places.insert(fragment, current);
        segment.fragments.len() == SLOTS
    }

    /// Returns the time since which the open segment has waited, unless another segment is being written.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        (self.current.is_some() && self.writing == 0).then_some(self.begun)
    }

    /// Closes the open segment, which the caller must then write.
    pub(super) fn close(&mut self) -> Option<usize> {
        let segment = self.current.take()?;
        self.writing += 1;
        Some(segment)
    }

    /// Records that a segment is on the log device.
    pub(super) fn written(&mut self, segment: usize) {
        self.writing -= 1;
        self.segments[segment].in_memory = false;
        self.dirty.push_back(segment);
        self.release(segment);
    }

    /// Removes a fragment that was destaged, or of which a newer copy exists.
    pub(super) fn forget(&mut self, fragment: u64) {
        if let Some(segment) = self.places.remove(&fragment) {
            self.segments[segment].valid -= 1;
            self.release(segment);
        }
    }

    /// Frees a segment without valid fragments, if the segment is not in memory.
    fn release(&mut self, segment: usize) {
        let one = &mut self.segments[segment];
        if one.valid > 0 || one.in_memory {
            return;
        }
        one.fragments.clear();
        self.dirty.retain(|dirty| *dirty != segment);
        self.free.push_back(segment);
    }

    pub(super) fn place(&self, fragment: u64) -> Option<usize> {
        self.places.get(&fragment).copied()
    }

    pub(super) fn lookup(&self, fragments: Range<u64>) -> FragmentPlaces {
        let mut found = FragmentPlaces::default();
        for fragment in fragments {
            match self.place(fragment) {
                None => found.home = true,
                Some(segment) if self.segments[segment].in_memory => {}
                Some(segment) => *found.in_log.entry(segment).or_default() += 1,
            }
        }
        found
    }

    /// Returns the valid fragments of a segment, each once, in the order of writing.
    pub(super) fn live(&self, segment: usize) -> Vec<u64> {
        let mut live: Vec<u64> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for fragment in &self.segments[segment].fragments {
            if self.place(*fragment) == Some(segment) && seen.insert(*fragment) {
                live.push(*fragment);
            }
        }
        live
    }

    /// Returns the segments to destage next.
    pub(super) fn choose(&self, order: PaperDestageOrder, window: usize) -> Vec<usize> {
        let mut all: Vec<usize> = self.dirty.iter().copied().collect();
        match order {
            PaperDestageOrder::Ring => {}
            PaperDestageOrder::LastWritten => all.reverse(),
            PaperDestageOrder::LeastValid => {
                all.sort_by_key(|segment| self.segments[*segment].valid);
            }
        }
        all.truncate(window);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills a segment with these fragments, and writes the segment.
    fn fill(state: &mut PaperCacheState, fragments: Range<u64>) {
        assert!(state.open());
        for fragment in fragments {
            state.put(fragment, Instant::default());
        }
        let segment = state.close().unwrap();
        state.written(segment);
    }

    #[test]
    fn every_destage_order_chooses_its_segment() {
        let mut state = PaperCacheState::new(8);
        fill(&mut state, 0..100);
        fill(&mut state, 200..300);
        fill(&mut state, 400..500);
        // The fourth segment overwrites most of the second segment.
        fill(&mut state, 200..290);
        assert_eq!(state.choose(PaperDestageOrder::Ring, 2), [0, 1]);
        assert_eq!(state.choose(PaperDestageOrder::LastWritten, 2), [3, 2]);
        assert_eq!(state.choose(PaperDestageOrder::LeastValid, 2), [1, 3]);
        assert_eq!(state.live(1), (290..300).collect::<Vec<_>>());
    }

    #[test]
    fn a_segment_is_free_only_when_it_has_no_live_data() {
        let mut state = PaperCacheState::new(4);
        fill(&mut state, 0..3);
        assert_eq!(state.used(), 0.25);
        state.forget(0);
        state.forget(1);
        assert!(state.is_dirty());
        fill(&mut state, 2..3);
        assert_eq!(
            (state.used(), state.choose(PaperDestageOrder::Ring, 9)),
            (0.25, vec![1])
        );
        state.forget(2);
        assert_eq!((state.used(), state.is_dirty()), (0.0, false));
    }

    #[test]
    fn a_lookup_returns_the_locations_of_all_fragments() {
        let mut state = PaperCacheState::new(4);
        fill(&mut state, 0..2);
        assert!(state.open());
        state.put(5, Instant::default());
        let found = state.lookup(0..6);
        assert_eq!((found.in_log, found.home), (BTreeMap::from([(0, 2)]), true));
        assert!(!state.lookup(5..6).home && state.lookup(5..6).in_log.is_empty());
    }
}
