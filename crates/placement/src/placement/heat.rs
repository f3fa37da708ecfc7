//! HyLog's separation of hot pages from cold ones (Wang, Zhao and Bunt, FAST 2004; the slides name four
//! steps): write frequencies are collected; the share of hot pages is found that minimises the expected
//! cost; a threshold of frequency follows from the share; and it tells hot pages from cold ones.
//!
//! Frequencies are collected in epochs, each half as many page writes as there are pages. Pages are judged by
//! what was counted before the epoch, and at its end it is known which share of the writes went to pages of
//! which count: that is the distribution by which the cost is computed. Were pages ranked and weighed by the
//! same counts, those that happened to be written more often would look hot, and even accesses skewed.
//!
//! Where the threshold falls among pages of one count, a hash decides which of them are hot, so that their
//! share is right and each page stays on its side.
//!
//! The model of costs is that of even accesses, which holds for a hot log cleaned greedily. To log everything
//! costs less than that says if accesses are skewed and victims are chosen by age; so that is measured while
//! it is done.
//!
//! Until two epochs have passed, and after a restart, which loses the counts, a page is hot if what it
//! overwrites lived shorter than a bar: that which the threshold amounted to before the restart. On a new volume all is
//! logged until then, and what that costs is measured: no model knows what a volume is for. But where even half of what logging even
//! accesses costs is more than writing home does, since the volume is very full, nothing is logged until then.

use super::counts::{ByCount, COUNT_MAX, Counts, EPOCHS, Sample, WritesByCount, classes};
use super::pages::{alike, pages, spread};
use super::{Fill, Options};
use crate::cost::{APPENDED, Access, Hybrid, best_hot_share_by, cleaning_cost, greedy_utilisation};
use forebay_units::{SECTOR_BYTES, Sector};

/// An epoch is one page write for so many pages.
const PAGES_PER_WRITE: u64 = 2;
/// The least page writes of an epoch.
const EPOCH_MIN: u64 = 1024;
/// What a division must cost at most, of what all or nothing in the log does, to take the place of that;
/// and to keep it.
const WORTH: f64 = 0.9;
const KEPT: f64 = 0.95;
/// On a new volume everything is logged if the model expects that to cost at most so many times what writing home costs.
const TRIED: f64 = 2.0;
/// It is thought over when the utilisation has changed by one in so many.
const FILL_STEPS: f64 = 1024.0;
/// Segments' worth of writes that a mean is taken of, at least.
const MEASURED_MIN: u64 = 16;
/// Beyond, segments of more pages are cleaned no differently.
const SEGMENT_PAGES_MAX: u64 = 1024;
/// The weight of what is new against what was before.
const NEWEST: f64 = 0.5;

/// What tells hot from cold.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Rule {
    /// Hot if it lived for less than so many sectors written by users.
    Lifetime(u64),
    /// Hot if counted more often than `bar`; of those as often, this share.
    Count { bar: u8, share: f64 },
}

/// What was seen in the epoch under way.
#[derive(Clone, Debug)]
struct Epoch {
    writes: u64,
    sectors: u64,
    requests: u64,
    /// Page writes by the count from before of the page.
    by_count: WritesByCount,
}

impl Default for Epoch {
    fn default() -> Epoch {
        Epoch {
            writes: 0,
            sectors: 0,
            requests: 0,
            by_count: [0; COUNT_MAX as usize + 1],
        }
    }
}

/// Which pages are hot.
#[derive(Clone, Debug)]
pub(super) struct Heat {
    options: Options,
    counts: Counts,
    sample: Sample,
    epoch: Epoch,
    /// Epochs that have passed, up to two.
    passed: u8,
    fill: Fill,
    rule: Rule,
    /// The bar of lifetimes that the threshold amounts to.
    lifetime: u64,
    /// What it costs to write home a segment's worth of writes as long as they were.
    home_cost: f64,
    /// What cleaning costs while all is logged, as measured, in terms of what the model says.
    measured: Option<f64>,
    /// Sectors that users wrote while all was logged, and that were moved for that, since it was measured last.
    logged: (u64, u64),
    best: Hybrid,
    /// The utilisation, in steps, at which it was thought over last what to do before anything is known.
    presumed_at: Option<u64>,
}

impl Heat {
    pub(super) fn new(options: &Options) -> Heat {
        let page_bytes = u64::from(options.page()) * SECTOR_BYTES;
        let best = Hybrid {
            share: 1.0,
            received: 1.0,
            cost: 0.0,
        };
        Heat {
            options: *options,
            counts: Counts::new(options.memory()),
            sample: Sample::default(),
            epoch: Epoch::default(),
            passed: 0,
            fill: Fill::default(),
            rule: Rule::Lifetime(u64::MAX),
            lifetime: u64::MAX,
            home_cost: options.disk.home_cost(page_bytes, options.segment_bytes),
            measured: None,
            logged: (0, 0),
            best,
            presumed_at: None,
        }
    }

    /// The division that is aimed at, and what it is expected to cost.
    pub(super) fn best(&self) -> &Hybrid {
        &self.best
    }

    /// What it costs to write home a segment's worth of writes as long as they were lately, in segment I/Os.
    pub(super) fn home_cost(&self) -> f64 {
        self.home_cost
    }

    /// The bar of lifetimes that the threshold amounts to, in sectors that users write.
    pub(super) fn lifetime(&self) -> u64 {
        self.lifetime
    }

    /// The count that a page must have, if counts decide.
    pub(super) fn bar(&self) -> Option<u8> {
        match self.rule {
            Rule::Count { bar, .. } => Some(bar),
            Rule::Lifetime(_) => None,
        }
    }

    /// The measured cost of logging everything, divided by the model's; NaN before it was measured.
    pub(super) fn measured(&self) -> f64 {
        self.measured.unwrap_or(f64::NAN)
    }

    /// The medium is so full.
    pub(super) fn filled(&mut self, fill: Fill) {
        self.fill = fill;
        if self.passed < 2 && self.measured.is_none() && !self.divides() {
            self.presume();
        }
    }

    /// Decides what to do as long as nothing is known of what is written.
    fn presume(&mut self) {
        let step = (self.fill.utilisation() * FILL_STEPS) as u64;
        if self.presumed_at.replace(step) == Some(step) {
            return;
        }
        let (logged, home) = (self.log_cost(), self.home_cost + APPENDED);
        let (share, cost, lifetime) = match logged <= TRIED * home {
            true => (1.0, logged, u64::MAX),
            false => (0.0, home, 0),
        };
        self.best = Hybrid {
            share,
            received: share,
            cost,
        };
        (self.lifetime, self.rule) = (lifetime, Rule::Lifetime(lifetime));
    }

    /// True if some pages are hot and some are not.
    pub(super) fn divides(&self) -> bool {
        self.best.share > 0.0 && self.best.share < 1.0
    }

    /// So many sectors were moved to get room.
    pub(super) fn moved(&mut self, sectors: u32) {
        if self.best.share >= 1.0 {
            self.logged.1 += u64::from(sectors);
        }
    }

    /// What was known of this before a restart.
    pub(super) fn restore(&mut self, share: f64, lifetime: u64, measured: f64) {
        self.measured = (measured >= 0.0).then_some(measured);
        self.best.share = share;
        self.lifetime = lifetime;
        self.rule = Rule::Lifetime(lifetime);
    }

    /// Whether the first page of a run is hot, and for how many sectors the same holds. `lived` is how long
    /// what is there has lived, if anything is.
    pub(super) fn judge(&self, at: Sector, sectors: u32, lived: Option<u64>) -> (bool, u32) {
        match self.rule {
            Rule::Lifetime(u64::MAX) => (true, sectors),
            Rule::Lifetime(bar) => (lived.is_some_and(|lived| lived < bar), sectors),
            Rule::Count { bar, share } => alike(at, sectors, self.options.page(), |page| {
                let count = self.counts.before(page);
                count > bar || count == bar && (spread(page) as f64) < share * 2f64.powi(64)
            }),
        }
    }

    /// A user writes so many sectors that were written before. What is written for the first time tells nothing of how
    /// often things are.
    pub(super) fn wrote(&mut self, at: Sector, sectors: u32) {
        for page in pages(at, sectors, self.options.page()) {
            let count = self.counts.before(page);
            self.epoch.by_count[usize::from(count)] += 1;
            self.epoch.writes += 1;
            self.counts.count(page);
            self.sample.saw(page);
        }
        self.epoch.sectors += u64::from(sectors);
        self.epoch.requests += 1;
        if self.best.share >= 1.0 {
            self.logged.0 += u64::from(sectors);
        }
        if self.epoch.writes >= self.epoch_length() {
            self.turn();
        }
    }

    /// In page writes. Not more than there are counts, or each page's would be a mixture of many.
    fn epoch_length(&self) -> u64 {
        let length = self.live_pages() / PAGES_PER_WRITE;
        length.min(self.counts.len() as u64).max(EPOCH_MIN)
    }

    fn live_pages(&self) -> u64 {
        self.fill.live / u64::from(self.options.page())
    }

    /// An epoch ends: what it says of accesses gives the hot share, and new counts the threshold.
    fn turn(&mut self) {
        let epoch = std::mem::take(&mut self.epoch);
        let before = self.sample.by_count(&self.counts);
        self.counts.turn();
        self.sample.forget(&self.counts);
        self.passed = (self.passed + 1).min(2);
        if self.passed < 2 {
            return;
        }
        let bytes = epoch.sectors * SECTOR_BYTES / epoch.requests.max(1);
        self.home_cost = self
            .options
            .disk
            .home_cost(bytes, self.options.segment_bytes);
        self.measure();
        if self.best.share >= 1.0 && self.measured.is_none() {
            // Room has not been short, so nothing is known of what it costs to get some back.
            self.set_threshold(&epoch);
            return;
        }
        let pages = self.with_unwritten(before);
        let access = Access::of(classes(&pages, &epoch.by_count));
        let best = self.best_share(&access);
        let old = self.best.share;
        let both_divide = [old, best.share]
            .iter()
            .all(|share| *share > 0.0 && *share < 1.0);
        let share = match both_divide {
            true => old + NEWEST * (best.share - old),
            false => best.share,
        };
        self.best = Hybrid { share, ..best };
        self.set_threshold(&epoch);
    }

    /// The hot share that is expected to cost least. All or nothing is taken if that costs little more: pages
    /// pass to and fro over a threshold, which costs as well; and so does it to change from one to the other.
    fn best_share(&self, access: &Access) -> Hybrid {
        let (d, e) = (self.fill.utilisation(), self.home_cost + APPENDED);
        let cleaned = |_, dense| greedy_utilisation(dense, self.segment_pages());
        let best = best_hot_share_by(access, d, e, cleaned);
        let logged = self.log_cost() * self.measured.unwrap_or(1.0);
        let ends = [(1.0, logged), (0.0, e)];
        let ends = ends.map(|(share, cost)| Hybrid {
            share,
            received: share,
            cost,
        });
        let worth = if self.divides() { KEPT } else { WORTH };
        let mut simple = ends.into_iter().filter(|end| end.cost * worth <= best.cost);
        simple.next().unwrap_or(best)
    }

    /// What it is expected to cost to log everything, by the model.
    fn log_cost(&self) -> f64 {
        cleaning_cost(greedy_utilisation(
            self.fill.utilisation(),
            self.segment_pages(),
        ))
    }

    fn segment_pages(&self) -> u32 {
        let page_bytes = u64::from(self.options.page()) * SECTOR_BYTES;
        (self.options.segment_bytes / page_bytes).clamp(1, SEGMENT_PAGES_MAX) as u32
    }

    /// What cleaning cost while all was logged: skewed accesses, victims chosen by age, and segments in which nothing is
    /// left by themselves make it cheaper than the model for even accesses says. What is moved is read and written; what
    /// is dead is not read.
    fn measure(&mut self) {
        let (written, moved) = self.logged;
        let model = self.log_cost();
        let segment = self.options.segment_bytes / SECTOR_BYTES;
        if written < MEASURED_MIN * segment || moved == 0 || !model.is_finite() {
            return;
        }
        self.logged = (0, 0);
        let cost = 1.0 + 2.0 * moved as f64 / written as f64;
        let ratio = (cost / model).min(2.0);
        let before = self.measured.unwrap_or(ratio);
        self.measured = Some(before + NEWEST * (ratio - before));
    }

    /// How many pages have which count, with those that were never written.
    fn with_unwritten(&self, mut pages: ByCount) -> ByCount {
        let written: f64 = pages[1..].iter().sum();
        pages[0] = pages[0].max(self.live_pages() as f64 - written);
        pages
    }

    /// The threshold at which the hot share is what it is to be.
    fn set_threshold(&mut self, epoch: &Epoch) {
        let now = self.sample.by_count(&self.counts);
        let pages = self.with_unwritten(now);
        let mut left = self.best.share * pages.iter().sum::<f64>();
        let mut bar = COUNT_MAX;
        for (count, &many) in (0..=COUNT_MAX).zip(&pages).rev() {
            bar = count;
            if many >= left {
                break;
            }
            left -= many;
        }
        let share = match self.best.share {
            share if share >= 1.0 => 1.0,
            _ => (left / pages[usize::from(bar)].max(1.0)).clamp(0.0, 1.0),
        };
        self.rule = Rule::Count { bar, share };
        self.lifetime = match (self.best.share, bar) {
            (share, _) if share >= 1.0 => u64::MAX,
            (share, _) if share <= 0.0 => 0,
            (_, bar) => (EPOCHS * epoch.sectors) / u64::from(bar.max(1)),
        };
    }
}

#[cfg(test)]
#[path = "heat_tests.rs"]
mod tests;
