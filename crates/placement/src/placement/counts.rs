//! Write counts of any number of pages in bounded memory.
//!
//! Counts are kept by hash, in two rows, of which the lower count is valid (a count-min sketch with conservative
//! update; Estan and Varghese, SIGCOMM 2002). A count is never too low, and too high only for a page that shares both
//! cells with other pages. Counts have two ages: counts of the current epoch, and older counts. Older counts classify
//! pages while new counts are collected. At the end of an epoch the older counts lose a quarter, and the new counts are
//! added. So an older count has a weight of about four epochs.
//!
//! A sample estimates the number of pages with each count. It contains the pages whose hash ends in a certain number of
//! zeroes. This number rises as the sample fills up.

use std::collections::BTreeSet;

use super::pages::spread;

/// Weight of an older count in epochs, if accesses do not change.
pub(super) const EPOCHS: u64 = 4;
/// Quarters of an older count that are kept at the end of an epoch.
const KEPT: u16 = 3;
/// Maximum count.
pub(super) const COUNT_MAX: u8 = u8::MAX;
/// Maximum number of pages in a sample.
const SAMPLE: usize = 4096;
const ROWS: usize = 2;
/// Counts below this are distinguished individually. Higher counts have four classes for each doubling, since few pages
/// have them.
const SINGLE: u8 = 16;

/// Numbers of pages by count.
pub(super) type PagesByCount = [f64; COUNT_MAX as usize + 1];

/// Numbers of page writes by the count of the page.
pub(super) type WritesByCount = [u64; COUNT_MAX as usize + 1];

/// Counts of pages.
#[derive(Clone, Debug)]
pub(super) struct PageCounts {
    /// Both rows, one after the other. Empty before the first count.
    now: Vec<u8>,
    before: Vec<u8>,
    row: usize,
}

impl PageCounts {
    /// Creates counts that take `bytes` bytes.
    pub(super) fn new(bytes: usize) -> PageCounts {
        let row = (bytes / (2 * ROWS)).max(1);
        PageCounts {
            now: Vec::new(),
            before: Vec::new(),
            row,
        }
    }

    /// Returns the number of distinguishable pages.
    pub(super) fn len(&self) -> usize {
        self.row
    }

    /// Counts a write of `page`.
    pub(super) fn count(&mut self, page: u64) {
        if self.now.is_empty() {
            self.now = vec![0; ROWS * self.row];
            self.before = vec![0; ROWS * self.row];
        }
        let cells = self.cells(page);
        let least = cells.map(|cell| self.now[cell]).into_iter().min();
        let Some(more) = least.and_then(|least| least.checked_add(1)) else {
            return;
        };
        for cell in cells {
            self.now[cell] = self.now[cell].max(more);
        }
    }

    /// Returns the count of `page` from before this epoch.
    pub(super) fn before(&self, page: u64) -> u8 {
        let [a, b] = self
            .cells(page)
            .map(|cell| self.before.get(cell).copied().unwrap_or(0));
        a.min(b)
    }

    /// Ends the epoch.
    pub(super) fn turn(&mut self) {
        for (before, now) in self.before.iter_mut().zip(&mut self.now) {
            let kept = u16::from(*before) * KEPT / 4;
            let sum = kept + u16::from(*now);
            *before = sum.min(u16::from(COUNT_MAX)) as u8;
            *now = 0;
        }
    }

    fn cells(&self, page: u64) -> [usize; ROWS] {
        let hash = spread(page);
        let scaled = |part: u64| ((part * self.row as u64) >> 32) as usize;
        [scaled(hash & 0xffff_ffff), self.row + scaled(hash >> 32)]
    }
}

/// A random sample of the written pages. All pages are equally likely.
#[derive(Clone, Debug, Default)]
pub(super) struct PageSample {
    pages: BTreeSet<u64>,
    /// One page in 2 to this power is in the sample.
    zeroes: u32,
}

impl PageSample {
    /// Notes a write of `page`.
    pub(super) fn saw(&mut self, page: u64) {
        if !self.has_room_for(page) || !self.pages.insert(page) {
            return;
        }
        while self.pages.len() > SAMPLE {
            self.zeroes += 1;
            let zeroes = self.zeroes;
            self.pages.retain(|&page| trailing(page) >= zeroes);
        }
    }

    /// Returns the estimated number of pages for each older count.
    pub(super) fn by_count(&self, counts: &PageCounts) -> PagesByCount {
        let mut pages = [0.0; COUNT_MAX as usize + 1];
        let each = 2f64.powi(self.zeroes as i32);
        for &page in &self.pages {
            pages[usize::from(counts.before(page))] += each;
        }
        pages
    }

    /// Removes pages without a count.
    pub(super) fn forget(&mut self, counts: &PageCounts) {
        self.pages.retain(|&page| counts.before(page) > 0);
        if self.pages.len() < SAMPLE / 4 {
            self.zeroes = self.zeroes.saturating_sub(1);
        }
    }

    /// Returns the sampling rate: one page in this many is in the sample.
    pub(super) fn one_in(&self) -> u64 {
        1 << self.zeroes.min(63)
    }

    /// Returns true if `page` is in the sample, or will be after it is written.
    pub(super) fn has_room_for(&self, page: u64) -> bool {
        trailing(page) >= self.zeroes
    }
}

/// Returns pages and writes by count, with higher counts combined.
pub(super) fn classes(pages: &PagesByCount, writes: &WritesByCount) -> Vec<(f64, f64)> {
    let mut classes: Vec<(f64, f64)> = Vec::new();
    let mut class = None;
    for (count, (&pages, &writes)) in (0..=COUNT_MAX).zip(pages.iter().zip(writes)) {
        let this = if count < SINGLE {
            u32::from(count)
        } else {
            // Four classes for each doubling: the highest three bits, and their position.
            // Four classes for each doubling: the highest three bits, and their position.
            count.ilog2() * 8 + u32::from(count >> (count.ilog2() - 2))
        };
        let writes = writes as f64;
        match classes.last_mut() {
            Some(last) if class == Some(this) => {
                last.0 += pages;
                last.1 += writes;
            }
            _ => classes.push((pages, writes)),
        }
        class = Some(this);
    }
    classes
}

/// Returns the trailing zeroes of a hash. The hash differs from that of the cells, so that the sample's pages do not
/// share cells.
fn trailing(page: u64) -> u32 {
    spread(spread(page)).trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_rng::Rng;

    #[test]
    fn page_counts_are_never_too_low_and_mostly_exact_with_fewer_pages_than_cells() {
        let mut counts = PageCounts::new(64 << 10);
        let many = |page: u64| 1 + page % 7;
        let pages = counts.len() as u64 / 8;
        for page in 0..pages {
            (0..many(page)).for_each(|_| counts.count(page));
        }
        assert_eq!(counts.before(3), 0);
        counts.turn();
        let found = |page| u64::from(counts.before(page));
        assert!((0..pages).all(|page| found(page) >= many(page)));
        let wrong = (0..pages).filter(|&page| found(page) != many(page)).count();
        assert!(wrong as f64 <= 0.02 * pages as f64, "{wrong} of {pages}");
    }

    #[test]
    fn earlier_counts_decay_and_steady_writes_weigh_four_epochs() {
        let mut counts = PageCounts::new(64 << 10);
        for _ in 0..30 {
            (0..20).for_each(|_| counts.count(7));
            counts.turn();
        }
        let steady = counts.before(7);
        assert!((75..=80).contains(&steady), "{steady}");
        (0..20).for_each(|_| counts.turn());
        assert_eq!(counts.before(7), 0);
        (0..999).for_each(|_| counts.count(7));
        counts.turn();
        assert_eq!(counts.before(7), COUNT_MAX);
    }

    #[test]
    fn the_sample_estimates_the_number_of_pages_of_each_count() {
        let (mut counts, mut sample, rng) =
            (PageCounts::new(4 << 20), PageSample::default(), Rng::new(5));
        let pages: Vec<u64> = (0..100_000).map(|_| rng.next() >> 20).collect();
        for (n, &page) in pages.iter().enumerate() {
            (0..1 + n % 4).for_each(|_| counts.count(page));
            sample.saw(page);
        }
        assert!(sample.pages.len() <= SAMPLE);
        counts.turn();
        let by_count = sample.by_count(&counts);
        for (count, estimate) in by_count.iter().enumerate().take(5).skip(1) {
            assert!(
                (estimate / 25_000.0 - 1.0).abs() < 0.15,
                "{count}: {estimate}"
            );
        }
    }
}
