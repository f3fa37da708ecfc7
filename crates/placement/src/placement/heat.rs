//! HyLog's separation of hot and cold pages (Wang, Zhao and Bunt, FAST 2004; the slides name four steps): collect write
//! frequencies, find the share of hot pages with the lowest expected cost, derive a frequency threshold from the share,
//! and classify pages by the threshold.
//!
//! Frequencies are collected in epochs. An epoch has half as many page writes as the volume has pages. Older counts
//! classify the pages. At the end of an epoch the writes are known by older count: this is the distribution from which
//! the cost is computed. If pages were ranked and weighed by the same counts, pages with more writes by chance would
//! look hot, and uniform accesses would look skewed.
//!
//! If the threshold falls among pages of one count, a hash decides which of them are hot. So the share is correct, and
//! each page stays on its side.
//!
//! The cost model assumes uniform accesses, which is correct for a hot log cleaned greedily. Logging everything costs
//! less than the model's value if accesses are skewed and victims are chosen by age. So this cost is measured while
//! everything is logged. A hot log beside cold pages costs more than the model's value: a page that crosses the
//! threshold leaves a hole between cold pages, and cleaning such holes moves cold pages. On a very full volume, these
//! holes are most of the free space. So this cost is measured, too. If it exceeds the cost of writing in place, the free
//! space that explains it replaces the free space of the device in the model. While pages are not divided, the model
//! slowly forgets this measurement, so that a division is tried again. Divisions have a budget (`placement/budget.rs`), so
//! that a wrong one ends early.
//!
//! For two epochs at the start, and after a restart, which loses the counts, pages are classified by lifetime: a page
//! is hot if the overwritten data lived shorter than a limit. After a restart the limit is the lifetime that
//! corresponded to the threshold before. A new volume logs everything at first and measures the cost, since no model
//! knows its writes. But on a very full volume even half of the expected cost of logging uniform accesses exceeds the
//! cost of writes in place. In this case nothing is logged at first.

use super::budget::DivisionBudget;
use super::counts::{
    COUNT_MAX, EPOCHS, PageCounts, PageSample, PagesByCount, WritesByCount, classes,
};
use super::pages::{alike, pages, spread};
use super::{FillLevel, PlacementOptions};
use crate::cost::{
    APPENDED, AccessDistribution, HybridSplit, best_hot_share_by, cleaning_cost,
    greedy_utilisation, hot_log_utilisation,
};
use forebay_units::{SECTOR_BYTES, Sector};

/// An epoch has one page write for this many pages.
const PAGES_PER_WRITE: u64 = 2;
/// Minimum number of page writes in an epoch.
const EPOCH_MIN: u64 = 1024;
/// Maximum cost of a division relative to logging all or nothing: first to replace that choice, then to stay.
const WORTH: f64 = 0.9;
const KEPT: f64 = 0.95;
/// Limit for logging everything on a new volume: the model's cost of logging, as a multiple of the cost of writes in
/// place.
const TRIED: f64 = 2.0;
/// The initial decision is repeated when the utilisation has changed by one in this many.
const FILL_STEPS: f64 = 4096.0;
/// Minimum client writes for a measurement, in segments.
const MEASURED_MIN: u64 = 16;
/// Maximum number of pages in the model of a segment. Larger segments are cleaned no differently.
const SEGMENT_PAGES_MAX: u64 = 1024;
/// Weight of a new value against the old one.
const NEWEST: f64 = 0.5;
/// Limits of the free space that a hot log seems to have, relative to the free space of the device.
const ROOM_MIN: f64 = 1.0 / 64.0;
const ROOM_MAX: f64 = 2.0;
/// Growth of the free space that a hot log seems to have, in each epoch without a division.
const FORGOTTEN: f64 = 1.0 + 1.0 / 64.0;
/// Number of steps in the search for the free space that explains a measured cost.
const ROOM_STEPS: u32 = 24;

/// Rule that separates hot and cold pages.
#[derive(Clone, Copy, PartialEq, Debug)]
enum HeatRule {
    /// Hot if the overwritten data lived for fewer sectors of client writes.
    Lifetime(u64),
    /// Hot if the count is above `bar`; of pages with exactly this count, the fraction `share` is hot.
    Count { bar: u8, share: f64 },
}

/// Observations of the current epoch.
#[derive(Clone, Debug)]
struct HeatEpoch {
    writes: u64,
    sectors: u64,
    requests: u64,
    /// Page writes by the older count of the page.
    by_count: WritesByCount,
}

impl Default for HeatEpoch {
    fn default() -> HeatEpoch {
        HeatEpoch {
            writes: 0,
            sectors: 0,
            requests: 0,
            by_count: [0; COUNT_MAX as usize + 1],
        }
    }
}

/// Work of a log since the last measurement, in sectors.
#[derive(Clone, Copy, Default, Debug)]
struct LogWork {
    /// Overwrites by clients that were logged.
    written: u64,
    /// Data that cleaning moved.
    moved: u64,
}

impl LogWork {
    /// Returns the cost in segment I/Os per segment's worth of logged writes. Moved data is read and written; dead data
    /// is not read.
    fn cost(&self) -> f64 {
        1.0 + 2.0 * self.moved as f64 / self.written as f64
    }
}

/// Classification of pages as hot or cold.
#[derive(Clone, Debug)]
pub(super) struct PageHeat {
    options: PlacementOptions,
    counts: PageCounts,
    sample: PageSample,
    epoch: HeatEpoch,
    /// Epochs that have passed, at most two.
    passed: u8,
    fill: FillLevel,
    rule: HeatRule,
    /// Limit of lifetimes that corresponds to the threshold.
    lifetime: u64,
    /// Cost of writing a segment's worth of data in place, in writes of the recent length.
    home_cost: f64,
    /// Measured cost of cleaning while everything is logged, relative to the model.
    measured: Option<f64>,
    /// Free space that a hot log seems to have, relative to the free space of the device. `None` before the first
    /// measurement.
    room: Option<f64>,
    /// True if the present division turned out not to cost less than writing everything in place.
    costs_too_much: bool,
    /// Work since the last measurement.
    logged: LogWork,
    budget: DivisionBudget,
    /// Expected cost without a division: all in place or all logged, whichever costs less.
    undivided: HybridSplit,
    best: HybridSplit,
    /// Utilisation, in steps, at the last decision made without observations.
    presumed_at: Option<u64>,
}

impl PageHeat {
    pub(super) fn new(options: &PlacementOptions) -> PageHeat {
        let page_bytes = u64::from(options.page()) * SECTOR_BYTES;
        let best = HybridSplit {
            share: 1.0,
            received: 1.0,
            cost: 0.0,
        };
        PageHeat {
            options: *options,
            counts: PageCounts::new(options.memory()),
            sample: PageSample::default(),
            epoch: HeatEpoch::default(),
            passed: 0,
            fill: FillLevel::default(),
            rule: HeatRule::Lifetime(u64::MAX),
            lifetime: u64::MAX,
            home_cost: options.disk.home_cost(page_bytes, options.segment_bytes),
            measured: None,
            room: None,
            costs_too_much: false,
            logged: LogWork::default(),
            budget: DivisionBudget::default(),
            undivided: best,
            best,
            presumed_at: None,
        }
    }

    /// Returns the division aimed at, with its expected cost.
    pub(super) fn best(&self) -> &HybridSplit {
        &self.best
    }

    /// Returns the cost of writing a segment's worth of data in place, in writes of the recent length, in segment I/Os.
    pub(super) fn home_cost(&self) -> f64 {
        self.home_cost
    }

    /// Returns the limit of lifetimes that corresponds to the threshold, in sectors that clients write.
    pub(super) fn lifetime(&self) -> u64 {
        self.lifetime
    }

    /// Returns the threshold of counts, if counts decide.
    pub(super) fn bar(&self) -> Option<u8> {
        match self.rule {
            HeatRule::Count { bar, .. } => Some(bar),
            HeatRule::Lifetime(_) => None,
        }
    }

    /// Returns the measured cost of logging everything, divided by the model's cost. NaN before the first measurement.
    pub(super) fn measured(&self) -> f64 {
        self.measured.unwrap_or(f64::NAN)
    }

    /// Returns the free space that a hot log seems to have, relative to the free space of the device, if it was
    /// measured.
    pub(super) fn room(&self) -> Option<f64> {
        self.room
    }

    /// Notes the fill level of the device.
    pub(super) fn filled(&mut self, fill: FillLevel) {
        self.fill = fill;
        if self.passed < 2 && self.measured.is_none() && !self.divides() {
            self.presume();
        }
    }

    /// Decides what to log while the writes are unknown.
    fn presume(&mut self) {
        let step = (self.fill.utilisation() * FILL_STEPS) as u64;
        if self.presumed_at.replace(step) == Some(step) {
            return;
        }
        let (logged, home) = (self.log_cost(), self.home_cost + APPENDED);
        let (share, cost, lifetime) = if logged <= TRIED * home {
            (1.0, logged, u64::MAX)
        } else {
            (0.0, home, 0)
        };
        self.best = HybridSplit {
            share,
            received: share,
            cost,
        };
        self.undivided = self.best;
        (self.lifetime, self.rule) = (lifetime, HeatRule::Lifetime(lifetime));
    }

    /// Ends a division that has used up its budget.
    fn give_up(&mut self) {
        self.measure_room(self.logged.cost());
        self.logged = LogWork::default();
        self.best = self.undivided;
        self.lifetime = if self.best.share > 0.0 { u64::MAX } else { 0 };
        self.rule = HeatRule::Lifetime(self.lifetime);
    }

    /// Returns true if some pages are hot and others are cold.
    pub(super) fn divides(&self) -> bool {
        self.best.share > 0.0 && self.best.share < 1.0
    }

    /// Notes that this many sectors were moved to gain free space.
    pub(super) fn moved(&mut self, sectors: u32) {
        self.logged.moved += u64::from(sectors);
        // After a restart, the costs are unknown for two epochs.
        if self.divides() && self.undivided.cost > 0.0 {
            self.budget.moved(sectors.into());
            if self.budget.is_used_up(self.fill.live) && self.logged.written > 0 {
                self.give_up();
            }
        }
    }

    /// Restores the values from before a restart.
    pub(super) fn restore(&mut self, share: f64, lifetime: u64, measured: f64) {
        self.measured = (measured >= 0.0).then_some(measured);
        self.best.share = share;
        self.lifetime = lifetime;
        self.rule = HeatRule::Lifetime(lifetime);
    }

    /// Returns true if the first page of an extent is hot, and the number of sectors with the same result. `lived` is
    /// the lifetime of the data at the first page, if any.
    pub(super) fn judge(&self, at: Sector, sectors: u32, lived: Option<u64>) -> (bool, u32) {
        match self.rule {
            HeatRule::Lifetime(u64::MAX) => (true, sectors),
            HeatRule::Lifetime(bar) => (lived.is_some_and(|lived| lived < bar), sectors),
            HeatRule::Count { bar, share } => alike(at, sectors, self.options.page(), |page| {
                let count = self.counts.before(page);
                count > bar || count == bar && (spread(page) as f64) < share * 2f64.powi(64)
            }),
        }
    }

    /// Notes a client write to mapped sectors, and whether the data was logged. First writes of sectors are excluded,
    /// since they reveal no frequency.
    pub(super) fn wrote(&mut self, at: Sector, sectors: u32, is_logged: bool) {
        for page in pages(at, sectors, self.options.page()) {
            let count = self.counts.before(page);
            self.epoch.by_count[usize::from(count)] += 1;
            self.epoch.writes += 1;
            self.counts.count(page);
            self.sample.saw(page);
        }
        self.epoch.sectors += u64::from(sectors);
        self.epoch.requests += 1;
        if is_logged {
            self.logged.written += u64::from(sectors);
        }
        let is_hot = is_logged && self.divides();
        self.budget
            .wrote(sectors.into(), self.undivided.cost, is_hot);
        if self.epoch.writes >= self.epoch_length() {
            self.turn();
        }
    }

    /// Returns the length of an epoch in page writes. The length is at most the number of counts. Otherwise each count
    /// would mix many pages.
    fn epoch_length(&self) -> u64 {
        let length = self.live_pages() / PAGES_PER_WRITE;
        length.min(self.counts.len() as u64).max(EPOCH_MIN)
    }

    fn live_pages(&self) -> u64 {
        self.fill.live / u64::from(self.options.page())
    }

    /// Ends an epoch: its accesses determine the hot share, and the new counts determine the threshold.
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
            // Free space was never short, so the cost of gaining some is unknown.
            self.set_threshold(&epoch);
            return;
        }
        let pages = self.with_unwritten(before);
        let access = AccessDistribution::of(classes(&pages, &epoch.by_count));
        let best = self.best_share(&access);
        let old = self.best.share;
        let both_divide = [old, best.share]
            .iter()
            .all(|share| *share > 0.0 && *share < 1.0);
        let share = if both_divide && !std::mem::take(&mut self.costs_too_much) {
            old + NEWEST * (best.share - old)
        } else {
            best.share
        };
        if !both_divide && share != old {
            // The work so far belongs to the former division.
            self.logged = LogWork::default();
        }
        self.best = HybridSplit { share, ..best };
        self.set_threshold(&epoch);
    }

    /// Returns the hot share with the lowest expected cost. Prefers all or nothing unless it costs clearly more: pages
    /// that cross the threshold cause costs, and so does a change between the two.
    fn best_share(&mut self, access: &AccessDistribution) -> HybridSplit {
        let (d, e) = (self.fill.utilisation(), self.home_cost + APPENDED);
        let d = with_room(d, self.room.unwrap_or(1.0));
        let cleaned = |_, dense| greedy_utilisation(dense, self.segment_pages());
        let best = best_hot_share_by(access, d, e, cleaned);
        let logged = self.log_cost() * self.measured.unwrap_or(1.0);
        let ends = [(1.0, logged), (0.0, e)];
        let ends = ends.map(|(share, cost)| HybridSplit {
            share,
            received: share,
            cost,
        });
        self.undivided = if logged < e { ends[0] } else { ends[1] };
        if !self.divides() && !self.budget.may_begin(self.fill.live) {
            return self.undivided;
        }
        let worth = if self.divides() { KEPT } else { WORTH };
        let mut simple = ends.into_iter().filter(|end| end.cost * worth <= best.cost);
        simple.next().unwrap_or(best)
    }

    /// Returns the model's cost of logging everything.
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

    /// Measures the cost of cleaning since the last measurement.
    fn measure(&mut self) {
        if !self.divides() {
            let forgotten = |room: f64| (room * FORGOTTEN).min(room.max(1.0));
            self.room = self.room.map(forgotten);
        }
        let work = self.logged;
        let segment = self.options.segment_bytes / SECTOR_BYTES;
        if work.written < MEASURED_MIN * segment || work.moved == 0 {
            return;
        }
        self.logged = LogWork::default();
        if self.divides() {
            self.measure_room(work.cost());
        } else if self.best.share >= 1.0 {
            self.measure_log(work.cost());
        }
    }

    /// Takes the cost while everything was logged. Skewed accesses, victims chosen by age, and segments that became
    /// empty by themselves make cleaning cheaper than the model for uniform accesses.
    fn measure_log(&mut self, cost: f64) {
        let model = self.log_cost();
        if model.is_finite() {
            let ratio = (cost / model).min(2.0);
            self.measured = Some(averaged(self.measured, ratio));
        }
    }

    /// Takes the cost of a hot log beside cold pages: searches the free space with which the model has this cost. The
    /// model is corrected only if the hot pages would cost less in place: at a smaller hot share, fewer pages cross the
    /// threshold, but cleaning costs nearly the same.
    fn measure_room(&mut self, cost: f64) {
        let (d, share) = (self.fill.utilisation(), self.best.share);
        let model = |room: f64| {
            let dense = hot_log_utilisation(share, with_room(d, room));
            cleaning_cost(greedy_utilisation(dense, self.segment_pages()))
        };
        let (mut low, mut high) = (ROOM_MIN, ROOM_MAX);
        for _ in 0..ROOM_STEPS {
            let middle = 0.5 * (low + high);
            if model(middle) > cost {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.costs_too_much = cost > self.home_cost + APPENDED;
        if self.costs_too_much {
            // A worse value holds at once: cleaning pays for the wrong division.
            self.room = Some(averaged(self.room, high).min(high));
        } else if let Some(room) = self.room {
            self.room = Some(averaged(Some(room), high).max(room));
        }
    }

    /// Returns the number of pages for each count, including pages that were never written.
    fn with_unwritten(&self, mut pages: PagesByCount) -> PagesByCount {
        let written: f64 = pages[1..].iter().sum();
        pages[0] = pages[0].max(self.live_pages() as f64 - written);
        pages
    }

    /// Sets the threshold that results in the wanted hot share.
    fn set_threshold(&mut self, epoch: &HeatEpoch) {
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
        self.rule = HeatRule::Count { bar, share };
        self.lifetime = match (self.best.share, bar) {
            (share, _) if share >= 1.0 => u64::MAX,
            (share, _) if share <= 0.0 => 0,
            (_, bar) => (EPOCHS * epoch.sectors) / u64::from(bar.max(1)),
        };
    }
}

/// Returns the utilisation of a device with the same data as one of utilisation `d`, and `room` times its free space.
fn with_room(d: f64, room: f64) -> f64 {
    d / (d + room * (1.0 - d)).max(f64::MIN_POSITIVE)
}

/// Returns the average of a new value and the value before, if any.
fn averaged(before: Option<f64>, new: f64) -> f64 {
    before.map_or(new, |before| before + NEWEST * (new - before))
}

#[cfg(test)]
#[path = "heat_tests.rs"]
mod tests;
