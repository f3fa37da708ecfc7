//! Permitted contents of a volume after a crash: the state after some prefix of the requests.
//!
//! A [`History`] contains the requests of one writer to its region, in order. Every sector has a list of versions. So
//! finding the prefixes that match a sector takes time proportional to its versions since the last flush.

mod action;

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use crate::stamp::{SECTOR, SectorContent, read_sector};

pub(crate) use action::room_for;
pub use action::{ScriptAction, extent, perform, random_action};

/// Content that a request leaves in its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepContent {
    /// The content at the start of the history.
    Base,
    /// The stamp with this number.
    Data(u64),
    /// Zeroes.
    Zero,
    /// Any content.
    Open,
}

/// Requests that certainly survive a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SurvivalRule {
    /// Durable requests survive: the power was cut.
    Durable,
    /// Acknowledged requests survive: only the process died, and the volume guarantees survival in this case.
    Acknowledged,
}

/// A version of a sector.
#[derive(Clone, Copy, Debug)]
struct SectorVersion {
    /// The step that wrote the version; 0 is the base.
    step: usize,
    what: StepContent,
    /// True if the step failed: the sector may still have the version before.
    maybe: bool,
}

const BASE: SectorVersion = SectorVersion {
    step: 0,
    what: StepContent::Base,
    maybe: false,
};

/// All requests to a region of a volume, in order, and the durable part of them.
#[derive(Clone)]
pub struct History {
    region: Range<u64>,
    base: Arc<Vec<u8>>,
    /// Sectors of the base, counted from the volume's start, that may have any content.
    open: Vec<bool>,
    /// Lost sectors of the base: they cannot be read until they are written again.
    lost: Vec<bool>,
    /// Data up to this step, including the base, may be lost.
    abandoned: Option<usize>,
    /// Versions of each sector of the region since the base.
    versions: Vec<Vec<SectorVersion>>,
    steps: usize,
    acknowledged: usize,
    durable: usize,
    id: u64,
}

/// A history with shared ownership.
pub type SharedHistory = Rc<RefCell<History>>;

impl History {
    /// Creates a history of `region` that begins with `base`. The number `id` distinguishes its stamps from those of
    /// other histories.
    pub fn new(base: Vec<u8>, region: Range<u64>, id: u64) -> History {
        History::sharing(Arc::new(base), region, id)
    }

    /// Creates a history like [`History::new`], with a base that several histories share.
    pub fn sharing(base: Arc<Vec<u8>>, region: Range<u64>, id: u64) -> History {
        let sectors = (region.end - region.start) as usize / SECTOR;
        History {
            open: vec![false; base.len() / SECTOR],
            lost: vec![false; base.len() / SECTOR],
            abandoned: None,
            versions: vec![Vec::new(); sectors],
            region,
            base,
            steps: 0,
            acknowledged: 0,
            durable: 0,
            id: id << 32,
        }
    }

    /// Creates a history of a whole volume.
    pub fn whole(base: Vec<u8>, id: u64) -> History {
        let region = 0..base.len() as u64;
        History::new(base, region, id)
    }

    /// Returns the bytes of the region.
    pub fn region(&self) -> Range<u64> {
        self.region.clone()
    }

    /// Returns the number of steps.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Returns the last acknowledged step.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    /// Returns the last durable step.
    pub fn durable(&self) -> usize {
        self.durable
    }

    /// Returns the last step that certainly survives a crash.
    pub fn kept(&self, kept: SurvivalRule) -> usize {
        match kept {
            SurvivalRule::Durable => self.durable,
            SurvivalRule::Acknowledged => self.durable.max(self.acknowledged),
        }
    }

    /// Notes that all steps up to this one are acknowledged.
    pub fn set_acknowledged(&mut self, upto: usize) {
        self.acknowledged = upto;
    }

    /// Notes that all steps up to this one are durable.
    pub fn set_durable(&mut self, upto: usize) {
        self.durable = self.durable.max(upto);
    }

    /// Notes that data up to now may be declared lost.
    pub fn abandon_unreadable(&mut self) {
        self.abandoned = Some(self.steps);
    }

    /// Notes that no step is certainly durable.
    pub fn forget_durability(&mut self) {
        self.durable = 0;
    }

    /// Returns the versions of a sector since the base.
    fn since(&self, sector: u64) -> &[SectorVersion] {
        let first = self.region.start / SECTOR as u64;
        &self.versions[(sector - first) as usize]
    }

    /// Returns the n-th version of a sector; the first one is the base.
    fn version(&self, sector: u64, n: usize) -> SectorVersion {
        n.checked_sub(1).map_or(BASE, |n| self.since(sector)[n])
    }

    /// Returns the number of the current version of a sector after a step.
    fn after(&self, sector: u64, step: usize) -> usize {
        self.since(sector)
            .partition_point(|version| version.step <= step)
    }

    /// Returns true if a sector may have this content while its n-th version is current.
    fn shows(&self, sector: u64, n: usize, content: SectorContent, bytes: &[u8]) -> bool {
        let version = self.version(sector, n);
        self.fits(version.what, sector, content, bytes)
            || version.maybe && self.shows(sector, n - 1, content, bytes)
    }

    fn fits(&self, what: StepContent, sector: u64, content: SectorContent, seen: &[u8]) -> bool {
        match what {
            StepContent::Base => {
                let at = sector as usize * SECTOR;
                let as_it_was = self.base[at..at + SECTOR] == *seen;
                !self.lost[sector as usize] && (self.open[sector as usize] || as_it_was)
            }
            StepContent::Data(id) => content == SectorContent::Stamp { id, sector },
            StepContent::Zero => content == SectorContent::Zero,
            StepContent::Open => true,
        }
    }

    /// Returns true if any sector may be permanently unreadable.
    pub fn may_have_lost(&self) -> bool {
        let lost = || self.sectors().any(|sector| self.lost[sector as usize]);
        self.abandoned.is_some() || lost()
    }

    /// Returns true if a sector may be permanently unreadable, provided that every version before step `from` has been
    /// replaced by the version after `from`.
    pub fn may_be_lost(&self, sector: u64, from: usize) -> bool {
        let mut versions = self.after(sector, from)..=self.since(sector).len();
        versions.any(|n| self.is_lost(sector, n))
    }

    /// Returns true if a sector may be lost while its n-th version is current.
    fn is_lost(&self, sector: u64, n: usize) -> bool {
        let version = self.version(sector, n);
        let was_lost = version.what == StepContent::Base && self.lost[sector as usize];
        let abandoned = self.abandoned.is_some_and(|upto| version.step <= upto);
        was_lost || abandoned || version.maybe && self.is_lost(sector, n - 1)
    }

    fn sectors(&self) -> Range<u64> {
        self.region.start / SECTOR as u64..self.region.end / SECTOR as u64
    }

    /// Returns the steps, from the last durable one on, after which the region may have the content `seen` (of the
    /// whole volume). Sectors in `unreadable` are ignored.
    ///
    /// # Errors
    /// If no step matches; the text names the place.
    pub fn prefixes(
        &self,
        seen: &[u8],
        unreadable: &dyn Fn(u64) -> bool,
    ) -> Result<Vec<usize>, String> {
        self.prefixes_from(self.durable, seen, unreadable)
    }

    /// Returns steps like [`History::prefixes`], from the step `least` on.
    ///
    /// # Errors
    /// If no step matches; the text names the place.
    pub fn prefixes_from(
        &self,
        least: usize,
        seen: &[u8],
        unreadable: &dyn Fn(u64) -> bool,
    ) -> Result<Vec<usize>, String> {
        let mut possible = vec![true; self.steps + 1];
        possible[..least].fill(false);
        for sector in self.sectors().filter(|sector| !unreadable(*sector)) {
            let bytes = &seen[sector as usize * SECTOR..][..SECTOR];
            let content = read_sector(bytes);
            let (first, last) = (self.after(sector, least), self.since(sector).len());
            let mut left = false;
            for n in first..=last {
                let from = self.version(sector, n).step;
                let to = if n == last {
                    possible.len()
                } else {
                    self.version(sector, n + 1).step
                };
                if self.shows(sector, n, content, bytes) {
                    left = true;
                } else {
                    possible[from..to].fill(false);
                }
            }
            if !left || last > first && !possible.contains(&true) {
                return Err(self.wrong(least, sector, content, bytes));
            }
        }
        let after: Vec<usize> = (0..possible.len()).filter(|n| possible[*n]).collect();
        if after.is_empty() {
            Err("no step fits all sectors".into())
        } else {
            Ok(after)
        }
    }

    fn wrong(&self, least: usize, sector: u64, content: SectorContent, bytes: &[u8]) -> String {
        let last = self.since(sector).len();
        let versions: Vec<SectorVersion> = (0..=last).map(|n| self.version(sector, n)).collect();
        let fitting: Vec<usize> = (0..=last)
            .filter(|n| self.shows(sector, *n, content, bytes))
            .map(|n| versions[n].step)
            .collect();
        format!(
            "sector {sector} holds {content:?}, as after steps {fitting:?} of {versions:?}; steps \
             {least}..={} may show, {} were acknowledged",
            self.steps, self.acknowledged
        )
    }

    /// Checks each sector separately, which is the guarantee of a disk.
    ///
    /// # Errors
    /// If a sector has an impossible content.
    pub fn each_sector(&self, seen: &[u8], unreadable: &dyn Fn(u64) -> bool) -> Result<(), String> {
        self.each_sector_from(self.durable, seen, unreadable)
    }

    /// Checks each sector like [`History::each_sector`], with the version after step `least` or newer ones.
    ///
    /// # Errors
    /// If a sector has an impossible content.
    pub fn each_sector_from(
        &self,
        least: usize,
        seen: &[u8],
        unreadable: &dyn Fn(u64) -> bool,
    ) -> Result<(), String> {
        for sector in self.sectors().filter(|sector| !unreadable(*sector)) {
            let bytes = &seen[sector as usize * SECTOR..][..SECTOR];
            self.one_sector(sector, bytes, least)?;
        }
        Ok(())
    }

    /// Checks that a sector may contain `bytes`, provided that every version before step `from` has been replaced by
    /// the version after `from`.
    ///
    /// # Errors
    /// If the sector cannot contain these bytes.
    pub fn one_sector(&self, sector: u64, bytes: &[u8], from: usize) -> Result<(), String> {
        let content = read_sector(bytes);
        let mut versions = self.after(sector, from)..=self.since(sector).len();
        if versions.any(|n| self.shows(sector, n, content, bytes)) {
            Ok(())
        } else {
            Err(self.wrong(from, sector, content, bytes))
        }
    }

    /// Continues from `seen`, which is the state after one of the steps `after`, without lost sectors.
    pub fn rebase(&mut self, seen: &[u8], after: &[usize]) {
        self.rebase_sharing(Arc::new(seen.to_vec()), &|_| false, after);
    }

    /// Continues like [`History::rebase`], with a base that several histories share and with lost sectors.
    pub fn rebase_sharing(
        &mut self,
        seen: Arc<Vec<u8>>,
        lost: &dyn Fn(u64) -> bool,
        after: &[usize],
    ) {
        self.abandoned = None;
        for sector in self.sectors() {
            self.lost[sector as usize] = lost(sector);
            let open = after.iter().any(|step| {
                let n = self.after(sector, *step);
                self.may_be_open(sector, n)
            });
            self.open[sector as usize] = open;
        }
        self.base = seen;
        self.id += self.steps as u64;
        self.steps = 0;
        self.versions.iter_mut().for_each(Vec::clear);
        (self.acknowledged, self.durable) = (0, 0);
    }

    /// Adds the next step; returns its number, from 1.
    pub fn step(&mut self, range: Range<u64>, what: StepContent) -> usize {
        self.steps += 1;
        let first = self.region.start / SECTOR as u64;
        for sector in range.start / SECTOR as u64..range.end / SECTOR as u64 {
            let version = SectorVersion {
                step: self.steps,
                what,
                maybe: false,
            };
            self.versions[(sector - first) as usize].push(version);
        }
        self.steps
    }

    fn may_be_open(&self, sector: u64, n: usize) -> bool {
        let version = self.version(sector, n);
        match version.what {
            StepContent::Base => self.open[sector as usize],
            StepContent::Open => true,
            _ => version.maybe && self.may_be_open(sector, n - 1),
        }
    }

    /// Adds concurrent writes of one stamp, as two steps: after the first step any of them may be visible, after the
    /// second all are. Returns the second step.
    pub fn batch(&mut self, ranges: &[Range<u64>], what: StepContent) -> usize {
        let (some, all) = (self.steps + 1, self.steps + 2);
        self.steps = all;
        let first = self.region.start / SECTOR as u64;
        let sectors = ranges
            .iter()
            .flat_map(|range| range.start / SECTOR as u64..range.end / SECTOR as u64);
        for sector in sectors {
            let versions = &mut self.versions[(sector - first) as usize];
            if versions.last().is_none_or(|version| version.step != all) {
                versions.extend(
                    [(some, true), (all, false)].map(|(step, maybe)| SectorVersion {
                        step,
                        what,
                        maybe,
                    }),
                );
            }
        }
        all
    }

    /// Notes that a step failed: from then on, its effect on each sector is unknown.
    pub fn failed(&mut self, step: usize, range: Range<u64>) {
        let first = self.region.start / SECTOR as u64;
        for sector in range.start / SECTOR as u64..range.end / SECTOR as u64 {
            let versions = &mut self.versions[(sector - first) as usize];
            let of_step = versions.iter_mut().filter(|version| version.step == step);
            of_step.for_each(|version| version.maybe = true);
        }
    }

    /// Returns the stamp of the next step.
    pub fn next_id(&self) -> u64 {
        self.id + self.steps as u64
    }

    /// Returns the step that wrote this stamp, if it belongs to this history since its base.
    pub fn step_of(&self, id: u64) -> Option<usize> {
        let step = id.checked_sub(self.id)? + 1;
        (step <= self.steps as u64).then_some(step as usize)
    }
}
