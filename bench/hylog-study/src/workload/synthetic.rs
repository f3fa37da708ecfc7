//! Random pages with a given skew.

use forebay_rng::Rng;

use super::{PageAccess, Workload};

/// The distribution of writes over pages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Skew {
    /// Every page with the same probability, as the study assumed for TPC-B.
    Uniform,
    /// A percentage of the writes goes to a percentage of the pages: 80 to 20, 90 to 10.
    HotCold {
        /// Percent of the writes.
        writes: u64,
        /// Percent of the pages.
        pages: u64,
    },
    /// The n-th page with a probability proportional to n to the power of minus this number.
    Zipf(f64),
}

/// Independent writes of single random pages, and reads among them. Hot pages are scattered over all pages.
pub struct SyntheticWorkload {
    skew: Skew,
    /// Percentage of reads.
    reads: u64,
    scattered: Vec<u32>,
    /// Cumulative sums of the terms, for Zipf.
    sums: Vec<f64>,
    rng: Rng,
}

impl SyntheticWorkload {
    /// Creates requests for `pages` pages, of which `reads` percent read. Reads have the skew of the writes.
    ///
    /// # Panics
    /// If `pages` is less than a hundred.
    pub fn new(skew: Skew, pages: u32, reads: u64, seed: u64) -> SyntheticWorkload {
        assert!(pages >= 100, "{pages} pages");
        let rng = Rng::new(seed);
        let mut scattered: Vec<u32> = (0..pages).collect();
        rng.shuffle(&mut scattered);
        let mut sum = 0.0;
        let term = |rank: u32| match skew {
            Skew::Zipf(exponent) => {
                sum += f64::from(rank).powf(-exponent);
                Some(sum)
            }
            _ => None,
        };
        let sums = (1..=pages).map_while(term).collect();
        SyntheticWorkload {
            skew,
            reads,
            scattered,
            sums,
            rng,
        }
    }

    fn rank(&self) -> usize {
        let all = self.scattered.len() as u64;
        match self.skew {
            Skew::Uniform => self.rng.below(all) as usize,
            Skew::HotCold { writes, pages } => {
                let hot = all * pages / 100;
                if self.rng.below(100) < writes {
                    self.rng.below(hot) as usize
                } else {
                    (hot + self.rng.below(all - hot)) as usize
                }
            }
            Skew::Zipf(_) => {
                let unit = (self.rng.next() >> 11) as f64 / (1u64 << 53) as f64;
                let at = unit * self.sums.last().copied().unwrap_or(0.0);
                let found = self.sums.partition_point(|sum| *sum < at);
                found.min(self.scattered.len() - 1)
            }
        }
    }
}

impl Workload for SyntheticWorkload {
    fn pages(&self) -> u32 {
        self.scattered.len() as u32
    }

    fn next(&mut self, _user: usize) -> PageAccess {
        let page = self.scattered[self.rank()];
        if self.rng.below(100) < self.reads {
            PageAccess::read(page)
        } else {
            PageAccess::write(page)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of writes of each page in `times` requests, in descending order.
    fn counts(skew: Skew, pages: u32, times: u32) -> Vec<u32> {
        let mut synthetic = SyntheticWorkload::new(skew, pages, 0, 3);
        let mut counts = vec![0; pages as usize];
        for _ in 0..times {
            let access = synthetic.next(0);
            assert!(access.write && access.pages == 1);
            counts[access.page as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn hot_cold_skew_sends_80_percent_of_the_writes_to_20_percent_of_the_pages() {
        let skew = Skew::HotCold {
            writes: 80,
            pages: 20,
        };
        let counts = counts(skew, 1000, 1_000_000);
        let hot: u32 = counts[..200].iter().sum();
        assert!((795_000..805_000).contains(&hot), "{hot}");
        assert!(counts[199] > 2 * counts[200]);
    }

    #[test]
    fn the_second_page_of_zipf_is_written_half_as_often_as_the_first() {
        let counts = counts(Skew::Zipf(1.0), 1000, 1_000_000);
        let ratio = f64::from(counts[0]) / f64::from(counts[1]);
        assert!((ratio - 2.0).abs() < 0.05, "{ratio}");
    }

    #[test]
    fn uniform_accesses_have_the_requested_read_share_and_reach_every_page() {
        let mut even = SyntheticWorkload::new(Skew::Uniform, 100, 25, 3);
        let mut seen = [false; 100];
        let mut reads = 0;
        for _ in 0..10_000 {
            let access = even.next(0);
            seen[access.page as usize] = true;
            reads += u32::from(!access.write);
        }
        assert!(seen.iter().all(|seen| *seen));
        assert!((2400..2600).contains(&reads), "{reads}");
    }
}
