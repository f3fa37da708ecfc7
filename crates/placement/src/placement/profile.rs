//! Distribution of client writes over the pages, learnt under any policy.
//!
//! Writes to a random sample of pages are counted, in epochs of half as many page writes as the volume has pages. As in
//! `heat.rs`, pages are ranked by older counts and weighed by the writes of the epoch. Otherwise pages with more writes
//! by chance would look hot, and uniform accesses would look skewed.

use super::counts::{COUNT_MAX, PageCounts, PageSample, WritesByCount, classes};
use super::pages::pages;
use crate::cost::AccessDistribution;
use forebay_units::{SECTOR_BYTES, Sector};

/// Bytes of counts. Only pages of the sample are counted, so few pages share a count.
const COUNT_BYTES: usize = 256 << 10;
/// An epoch has one write for this many pages.
const PAGES_PER_WRITE: u64 = 2;
/// Minimum number of writes to sampled pages in an epoch. With fewer writes the distribution would be random.
const SAMPLED_MIN: u64 = 256;

/// Learnt properties of client writes.
#[derive(Clone, Debug)]
pub struct WriteProfile {
    page: u32,
    counts: PageCounts,
    sample: PageSample,
    by_count: WritesByCount,
    /// Writes in this epoch that overwrote a page of the sample.
    sampled: u64,
    requests: u64,
    sectors: u64,
    /// Epochs that have passed, at most three.
    passed: u8,
}

/// Result of an epoch.
#[derive(Clone, PartialEq, Debug)]
pub struct EpochProfile {
    /// Distribution of writes over pages.
    pub access: AccessDistribution,
    /// Mean length of a write, in bytes.
    pub write_bytes: u64,
}

impl WriteProfile {
    /// Creates an empty profile for pages of `page_sectors` sectors.
    pub fn new(page_sectors: u32) -> WriteProfile {
        WriteProfile {
            page: page_sectors.max(1),
            counts: PageCounts::new(COUNT_BYTES),
            sample: PageSample::default(),
            by_count: [0; COUNT_MAX as usize + 1],
            sampled: 0,
            requests: 0,
            sectors: 0,
            passed: 0,
        }
    }

    /// Notes a client write. `is_mapped` returns true if a sector holds data: first writes are ignored, since they
    /// reveal no frequency. It is called only for pages of the sample.
    pub fn wrote(&mut self, at: Sector, sectors: u32, is_mapped: impl Fn(Sector) -> bool) {
        self.requests += 1;
        self.sectors += u64::from(sectors);
        for page in pages(at, sectors, self.page) {
            if !self.sample.has_room_for(page) {
                continue;
            }
            let first = Sector((page * u64::from(self.page)).max(at.0));
            if !is_mapped(first) {
                continue;
            }
            let one_in = self.sample.one_in();
            self.by_count[usize::from(self.counts.before(page))] += 1;
            self.sampled += 1;
            self.counts.count(page);
            self.sample.saw(page);
            if self.sample.one_in() > one_in {
                // Half of the sample was removed.
                self.by_count.iter_mut().for_each(|count| *count /= 2);
                self.sampled /= 2;
            }
        }
    }

    /// Returns true if enough was written for a result of [`WriteProfile::turn`], on a volume with `live_sectors` of data.
    pub fn is_full(&self, live_sectors: u64) -> bool {
        let pages = live_sectors / u64::from(self.page);
        let writes = self.sampled.saturating_mul(self.sample.one_in());
        self.sampled >= SAMPLED_MIN && writes >= pages / PAGES_PER_WRITE
    }

    /// Ends the epoch. Returns its result from the third epoch on.
    pub fn turn(&mut self, live_sectors: u64) -> Option<EpochProfile> {
        let mut pages = self.sample.by_count(&self.counts);
        let write_bytes = self.sectors * SECTOR_BYTES / self.requests.max(1);
        let by_count = std::mem::replace(&mut self.by_count, [0; COUNT_MAX as usize + 1]);
        (self.sampled, self.requests, self.sectors) = (0, 0, 0);
        self.counts.turn();
        self.sample.forget(&self.counts);
        self.passed = (self.passed + 1).min(3);
        if self.passed < 3 {
            return None;
        }
        let live = live_sectors as f64 / f64::from(self.page);
        let written: f64 = pages[1..].iter().sum();
        pages[0] = pages[0].max(live - written);
        Some(EpochProfile {
            access: AccessDistribution::of(classes(&pages, &by_count)),
            write_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_rng::Rng;

    const PAGES: u64 = 40_000;

    /// Returns the profile after some epochs of writes, of which `hot` percent go to the first 20 % of the pages.
    fn profiled(hot: u64, pages: u64) -> EpochProfile {
        let (mut profile, rng) = (WriteProfile::new(16), Rng::new(hot));
        let mut last = None;
        for _ in 0..12 * pages {
            let page = if rng.below(100) < hot {
                rng.below(pages / 5)
            } else {
                pages / 5 + rng.below(pages - pages / 5)
            };
            profile.wrote(Sector(page * 16), 16, |_| true);
            if profile.is_full(pages * 16) {
                last = profile.turn(pages * 16).or(last);
            }
        }
        last.expect("enough was written")
    }

    #[test]
    fn a_skew_is_detected_and_uniform_writes_appear_uniform() {
        for pages in [2_000, PAGES] {
            for (hot, expected) in [(80, 0.8), (20, 0.2)] {
                let found = profiled(hot, pages);
                assert_eq!(found.write_bytes, 8192);
                let received = found.access.received(0.2);
                assert!(
                    (received - expected).abs() < 0.06,
                    "{hot} of {pages}: {received}"
                );
            }
        }
    }

    #[test]
    fn first_writes_of_sectors_do_not_count_in_the_profile() {
        let mut profile = WriteProfile::new(16);
        for page in 0..PAGES {
            profile.wrote(Sector(page * 16), 16, |_| false);
        }
        assert!(!profile.is_full(PAGES * 16));
        // Longer writes, partly to new sectors.
        for page in 0..PAGES {
            profile.wrote(Sector(page * 16), 32, |at| at.0 % 32 == 0);
        }
        assert!(profile.is_full(PAGES * 16));
        assert_eq!(profile.turn(PAGES * 16), None);
    }
}
